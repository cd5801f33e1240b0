# What contributors run. Everything goes through CMake; this file only names the
# steps. Users run ./finity; installing is `cmake --install build`.

FUZZ_SECONDS ?= 60
MUTANTS ?= 200
ONNXRUNTIME ?= 1.30.0
HOSTILE ?= 100000
MODELS ?=
SEED ?= 1
FUZZERS = fuzz_onnx fuzz_tensor fuzz_npz fuzz_text fuzz_settings fuzz_tensorflow fuzz_model
# ./finity builds into the same folder, perhaps at the same time.
locked = mkdir -p build && flock build/.lock

.PHONY: build test asan bench fuzz hostile kernels mutation format tidy clean

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
	@$(locked) tools/configure release -DFINITY_BENCHMARKS=ON
	@$(locked) cmake --build build
	@set -e; for program in build/bin/bench_*; do echo "$$program"; "$$program"; done

# Each fuzzer runs for FUZZ_SECONDS and keeps what it learns in build-fuzz/corpus.
fuzz:
	@tools/install-packages build test fuzz
	@tools/configure fuzz
	@cmake --build build-fuzz --target $(FUZZERS)
	@set -e; for name in $(FUZZERS); do mkdir -p build-fuzz/corpus/$$name; \
	  build-fuzz/bin/$$name -max_total_time=$(FUZZ_SECONDS) build-fuzz/corpus/$$name; done

# Every op in ONNX Runtime, compared with what the checker claims of it: docs/testing.md.
kernels:
	@tools/install-packages build test
	@$(locked) tools/configure release
	@$(locked) cmake --build build --target kernels
	build/bin/kernels --version $(ONNXRUNTIME)

# Mutated models through every command under the sanitizers, for longer than `make test` does; MODELS are further
# folders to take models from.
hostile:
	@tools/install-packages build test
	@$(locked) tools/configure release
	@$(locked) cmake --build build --target model_mutants
	build/bin/model_mutants $(HOSTILE) $(SEED) $(MODELS)

# Breaks the range code on purpose, in a copy, and counts what the tests notice: docs/testing.md.
mutation:
	@tools/install-packages build test
	@tools/mutate.py --sample $(MUTANTS) --seed $(SEED)

format:
	@command -v clang-format >/dev/null || tools/install-packages test
	@tools/check_format --fix

tidy:
	@tools/install-packages build test tidy
	@tools/configure tidy
	@tools/tidy

clean:
	rm -rf build build-*/
