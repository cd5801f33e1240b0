#!/bin/sh
# Tests ./finity and tools/install-packages on a tiny project in a temporary
# folder, with stand-ins for dpkg-query, apt-get, sudo and id.
set -u

repo=$(cd -P -- "$(dirname -- "$0")/../.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project="$work/a project"
stubs=$work/stubs
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
  sed 's/^/  out: /' "$work/out"
  sed 's/^/  err: /' "$work/err"
}

# expect EXIT-CODE OUTPUT PATTERN-OF-STDERR COMMAND... ; an empty pattern: stderr is empty.
expect() {
  code=$1 output=$2 pattern=$3
  shift 3
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" -eq "$code" ] || fail "$name: exit $got, expected $code"
  [ "$(cat "$work/out")" = "$output" ] || fail "$name: expected the output '$output'"
  if [ -z "$pattern" ]; then
    [ ! -s "$work/err" ] || fail "$name: expected nothing on stderr"
  else
    grep -q -e "$pattern" "$work/err" || fail "$name: expected '$pattern' on stderr"
  fi
}

stub() { cat >"$stubs/$1" && chmod +x "$stubs/$1"; }

# Packages count as installed unless they are listed in $work/missing.
make_stubs() {
  mkdir "$stubs"
  : >"$work/missing"
  stub dpkg-query <<EOF
#!/bin/sh
shift 3
for package in "\$@"; do
  grep -qxF -e "\$package" "$work/missing" || echo "installed \$package"
done
EOF
  stub apt-get <<EOF
#!/bin/sh
echo "apt-get \$*" >>"$work/calls"
case "\$*" in *" install "*) : >"$work/missing" ;; esac
EOF
  stub id <<'EOF'
#!/bin/sh
echo 0
EOF
}

make_project() {
  mkdir -p "$project/src" "$project/tools"
  cp "$repo/finity" "$repo/packages.txt" "$repo/CMakePresets.json" "$project"
  cp "$repo/tools/install-packages" "$repo/tools/configure" "$project/tools"
  cat >"$project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(finity LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
file(GLOB sources CONFIGURE_DEPENDS src/*.cpp)
add_executable(finity ${sources})
add_executable(other other.cpp)
EOF
  echo "#error only the program itself is to be built" >"$project/other.cpp"
  write_main one
}

write_main() {
  cat >"$project/src/main.cpp" <<EOF
#include <cstdio>
int main(int count, char** arguments) {
  std::printf("$1");
  for (int i = 1; i < count; ++i) std::printf(" <%s>", arguments[i]);
  std::puts("");
  return 7;
}
EOF
}

wrapper() { (cd "$work" && exec "$project/finity" "$@"); }
restricted() { PATH=$stubs:$work/bin /bin/sh "$project/tools/install-packages" "$@"; }

make_stubs
make_project
PATH=$stubs:$PATH

name="first run"
expect 7 'one <a b> <>' 'building' wrapper 'a b' ''
name="nothing to do"
expect 7 'one' '' wrapper
name="through a link"
ln -s "$project/finity" "$work/link"
expect 7 'one <x>' '' "$work/link" x
name="from its own folder, by the shell"
expect 7 'one' '' sh -c 'cd "$1" && sh finity' sh "$project"
name="another current folder"
expect 7 'one' '' sh -c 'cd / && exec "$1"' sh "$project/finity"

name="changed source"
write_main two
expect 7 'two' 'building' wrapper
expect 7 'two' '' wrapper

name="broken source"
echo 'int broken = ;' >"$project/src/extra.cpp"
expect 2 '' 'extra.cpp:1:14: error' wrapper
expect 2 '' 'build/finity-build.log' wrapper
name="deleted source"
rm "$project/src/extra.cpp"
expect 7 'two' 'building' wrapper
expect 7 'two' '' wrapper

name="broken project file"
cp "$project/CMakeLists.txt" "$work/saved"
echo 'no_such_command()' >>"$project/CMakeLists.txt"
expect 2 '' 'no_such_command' wrapper
cp "$work/saved" "$project/CMakeLists.txt"

name="moved checkout"
mv "$project" "$work/moved"
project=$work/moved
write_main three
expect 7 'three' 'building' wrapper

name="concurrent calls"
write_main four
for i in 1 2 3 4; do wrapper >"$work/concurrent.$i" 2>/dev/null & done
wait
for i in 1 2 3 4; do expect 0 'four' '' cat "$work/concurrent.$i"; done

name="missing packages"
printf '%s\n' g++ mold >"$work/missing"
touch "$project/packages.txt"
expect 7 'four' 'installing Debian packages: g++ mold$' wrapper
expect 0 '2' '' grep -c '' "$work/calls"
expect 0 '1' '' grep -c ' update$' "$work/calls"
expect 0 '1' '' grep -c ' install -y --no-install-recommends g++ mold$' "$work/calls"
name="installed packages"
expect 0 '' '' "$project/tools/install-packages" build test
expect 0 '2' '' grep -c '' "$work/calls"

name="a command from elsewhere"
echo helper >"$work/missing"
cp "$project/packages.txt" "$work/saved"
printf '[helping]\nhelper or-command # helps\n' >>"$project/packages.txt"
expect 0 '' 'installing Debian packages: helper$' "$project/tools/install-packages" helping
printf '#!/bin/sh\n' | stub helper
echo helper >"$work/missing"
expect 0 '' '' "$project/tools/install-packages" helping
rm "$stubs/helper"
cp "$work/saved" "$project/packages.txt"
: >"$work/calls"
: >"$work/missing"

name="sections"
echo libgtest-dev >"$work/missing"
expect 0 '' '' "$project/tools/install-packages" build
expect 0 '' 'libgtest-dev$' "$project/tools/install-packages" build test

# From here on only the tools that every Debian system has.
mkdir "$work/bin"
for tool in awk cat dirname env grep id mkdir sed sh tail; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
name="failing apt-get"
echo mold >"$work/missing"
stub apt-get <<'EOF'
#!/bin/sh
echo "E: nothing works"
exit 100
EOF
expect 2 '' 'E: nothing works' restricted build
name="with sudo"
stub id <<'EOF'
#!/bin/sh
echo 1000
EOF
stub sudo <<EOF
#!/bin/sh
echo "sudo \$*" >>"$work/calls"
EOF
expect 0 '' 'installing' restricted build
expect 0 '2' '' grep -c '^sudo env .* apt-get' "$work/calls"
name="without sudo"
rm "$stubs/sudo"
expect 2 '' 'takes root or sudo' restricted build
expect 2 '' '^  apt-get install .* mold$' restricted build
name="without apt-get"
rm "$stubs/apt-get"
expect 2 '' 'no apt-get' restricted build
name="another system"
rm "$stubs/dpkg-query"
expect 0 '' 'not a Debian system' restricted build

[ "$failures" -eq 0 ] || exit 1
