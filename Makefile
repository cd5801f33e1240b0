# What contributors run. Everything goes through CMake; this file only names the
# steps. Users run ./finity; installing is `cmake --install build`.

FUZZ_SECONDS ?= 60
# ./finity builds into the same folder, perhaps at the same time.
locked = mkdir -p build && flock build/.lock

.PHONY: build test asan bench fuzz format tidy clean

build:
	@tools/install-packages build
	@$(locked) tools/configure release
	@$(locked) cmake --build build

test:
	@tools/install-packages build test
	@$(locked) tools/configure release
	@$(locked) cmake --build build
	ctest --test-dir build --output-on-failure -j2

# The same tests under the address and undefined-behaviour sanitizers.
asan:
	@tools/install-packages build test
	@tools/configure asan
	@cmake --build build-asan
	ctest --test-dir build-asan --output-on-failure -j2

bench:
	@tools/install-packages build test
	@$(locked) tools/configure release
	@$(locked) cmake --build build
	@set -e; for program in build/bin/bench_*; do echo "$$program"; "$$program"; done

# Each fuzzer runs for FUZZ_SECONDS and keeps what it learns in build-fuzz/corpus.
fuzz:
	@tools/install-packages build fuzz
	@tools/configure fuzz
	@cmake --build build-fuzz
	@set -e; for program in build-fuzz/bin/fuzz_*; do \
	  corpus=build-fuzz/corpus/$${program##*/}; mkdir -p "$$corpus"; \
	  "$$program" -max_total_time=$(FUZZ_SECONDS) "$$corpus"; done

format:
	@command -v clang-format >/dev/null || tools/install-packages test
	@tools/check_format --fix

tidy:
	@tools/install-packages build test tidy
	@$(locked) tools/configure release
	@tools/tidy

clean:
	rm -rf build build-*/
