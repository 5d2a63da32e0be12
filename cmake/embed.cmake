# Writes OUTPUT, a C file that holds the texts of FILES as kernels/embedded.h declares them.
#   cmake -DOUTPUT=embedded.c "-DFILES=a.dlk;b.dlk" -P embed.cmake
set(rows "")
set(count 0)
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  # Hexadecimal on the way, because CMake's own strings treat brackets and semicolons as list syntax.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," array "${hex}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n    " array "${array}")
  string(APPEND texts "static const unsigned char text_${count}[] = {\n    ${array}0x00};\n\n")
  string(APPEND rows "    {\"${name}\", (const char *)text_${count}, ${bytes}},\n")
  math(EXPR count "${count} + 1")
endforeach()
set(padding "")
if(count EQUAL 0)
  set(padding "    {\"\", \"\", 0},\n")
endif()
file(WRITE "${OUTPUT}.new"
  "/* Made by cmake/embed.cmake from the .dlk files of kernels. */\n#include \"kernels/embedded.h\"\n\n${texts}"
  "const dlk_kernel_text dlk_kernel_texts[] = {\n${rows}${padding}};\nconst int dlk_kernel_texts_count = ${count};\n")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
