#!/bin/sh
# Builds the named malloc tests of glibc from an archive of its sources, as they are, against the
# installed C library: with what the tests share (support/), as far as that can be built outside.
#
# Usage: glibc.sh ARCHIVE DIRECTORY TEST...
set -eu
archive=$1 directory=$2
shift 2
mkdir -p "$directory"
cd "$directory"
tar xf "$archive" --strip-components=1 --wildcards '*/malloc/*' '*/support/*' '*/test-skeleton.c' \
    '*/include/array_length.h' '*/include/intprops.h' '*/include/libc-diag.h'
mkdir -p objects

# -fno-builtin: the compiler would take away what the tests are about.
compile="${CC:-cc} -std=gnu11 -O2 -w -D_GNU_SOURCE -DTIMEOUTFACTOR=10 -fno-builtin -pthread \
    -include limits.h -Iinclude -I. -Isupport -Imalloc"
paths=
for name in SRCDIR OBJDIR OBJDIR_ELF_LDSO INSTDIR LIBDIR BINDIR SBINDIR ROOTSBINDIR \
    COMPLOCALEDIR SYSCONFDIR SLIBDIR; do
    paths="$paths '-D${name}_PATH=\"/\"'"
done
for source in support/*.c; do
    object=objects/$(basename "$source" .c).o
    # Some need parts of glibc that are not installed, and none of these tests needs those.
    echo "$compile $paths -c $source -o $object 2>/dev/null || true"
done | xargs -P 2 -d '\n' -n 1 sh -c
ar rcs libsupport.a objects/*.o
for test; do
    $compile "malloc/$test.c" -o "$test" libsupport.a
done
