"""The examples of README.md run as they stand."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.S).group(1)


def test_python_example():
    done = subprocess.run([sys.executable, "-c", block("python")], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "kernels compiled" in done.stdout


def test_c_example(tmp_path):
    (tmp_path / "sum.c").write_text(block("c"))
    build = ROOT / "build"
    program = tmp_path / "sum"
    subprocess.run(["cc", "-Wall", "-Werror", f"-I{ROOT}/include", str(tmp_path / "sum.c"), "-o", str(program), f"-L{build}", "-ldlk", f"-Wl,-rpath,{build}"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.stdout == "6 15\n", done.stderr


def test_command_line_examples():
    for line in re.findall(r"^build/dlk .*$", README, re.M):
        done = subprocess.run(line.split("#")[0], shell=True, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout.strip()
