# Toolchain for running the C tests as another Linux machine under qemu-user: set ET_CROSS to the
# compiler's prefix (aarch64-linux-gnu, riscv64-linux-gnu, arm-linux-gnueabihf). Programs are linked statically, so that
# qemu needs no libraries of that machine.
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${ET_CROSS}")
set(CMAKE_C_COMPILER ${ET_CROSS}-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ET_CROSS)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${CMAKE_SYSTEM_PROCESSOR})
