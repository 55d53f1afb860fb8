# kbfcached: one hand-written, non-recursive Makefile. `make help` lists the goals.
#
# A bare clone builds with `make`: the rules below install missing packages, run autoconf and configure, and then build.
# Everything that is built lands in $(BUILD); sanitizer builds use their own directory.

BUILD ?= build
SANITIZE ?=
WERROR ?= -Werror
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# The two README commands should use the whole machine without being told.
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(JOBS)
endif
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

PACKAGES_BUILD := g++ autoconf pkg-config libevent-dev libssl-dev libxxhash-dev libzstd-dev libcli11-dev doctest-dev libjemalloc-dev liburing-dev libpcap-dev
PACKAGES_FORMAT := clang-format
PACKAGES_LINT := clang-tidy cppcheck
PACKAGES_VERSUS := memcached python3 openssl
PACKAGES_FIGURES := gnuplot-nox fonts-dejavu-core memcached python3
PACKAGES_DEMO := memcached python3
# The clients that the end-to-end tests use; tests/e2e/run asks for the rest.
PACKAGES_TEST := memcached python3 openssl mandoc gnuplot-nox fonts-dejavu-core etcd-server tcpdump
INSTALL_PACKAGES := tools/install-packages

# ---- configuration -------------------------------------------------------------------------------------------------

ifneq ($(filter-out clean distclean help format,$(or $(MAKECMDGOALS),all)),)
include config.mk
endif

configure config.h.in &: configure.ac
	@$(INSTALL_PACKAGES) 'to build' $(PACKAGES_BUILD)
	autoconf && autoheader
	@touch configure config.h.in

config.status: configure
	@$(INSTALL_PACKAGES) 'to build' $(PACKAGES_BUILD)
	@if test -x config.status; then echo './config.status --recheck'; ./config.status --recheck; \
	else echo './configure -q'; ./configure -q; fi
	@touch config.status

config.mk config.h &: config.status config.h.in src/config.mk.in
	@./config.status -q
	@touch config.mk config.h

# ---- flags ---------------------------------------------------------------------------------------------------------

# The public headers include each other as <kbf/...>, as they do where they are installed.
CPPFLAGS += -I. -Istorage/include
CXXFLAGS += -Wall -Wextra $(WERROR)
ifneq ($(SANITIZE),)
CXXFLAGS += -DKBF_NO_JEMALLOC -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SANITIZE)
ALLOC_LIBS :=
HARDENING := no
HARDENING_CXXFLAGS :=
HARDENING_LDFLAGS :=
else
ALLOC_LIBS = $(JEMALLOC_LIBS)
endif
# The C library warns about FORTIFY_SOURCE without optimisation. A level that the builder gives is kept.
ifeq ($(HARDENING)$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CXXFLAGS)),yes)
ifneq ($(filter-out -O0,$(lastword $(filter -O%,$(CXXFLAGS)))),)
HARDENING_CXXFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
endif
COMPILE = $(CXX) $(CPPFLAGS) $(HARDENING_CXXFLAGS) $(CXXFLAGS) -MMD -MP

# ---- sources: one wildcard per room --------------------------------------------------------------------------------

STORAGE_SRC := $(wildcard storage/*.cc storage/*/*.cc)
PROTOCOL_SRC := $(wildcard protocol/*.cc)
SERVER_SRC := $(filter-out src/main.cc,$(wildcard src/*.cc src/*/*.cc)) $(wildcard tools/cluster/*.cc)
LOAD_SRC := $(wildcard tools/kbfload/*.cc)
JOIN_SRC := $(wildcard tools/kbfjoin/*.cc)
FLOW_SRC := $(wildcard tools/kbfflow/*.cc)
TOOL_SHARED_SRC := tools/wrong_call.cc tools/files.cc
TOOL_SRC := $(wildcard tools/*.cc)
TEST_SRC := $(wildcard tests/*.cc tests/*/*_test.cc tests/*/*/*_test.cc) tests/tools/cluster/etcd_process.cc
BENCH_SRC := $(wildcard bench/*.cc)
PUBLIC_HEADERS := $(wildcard storage/include/kbf/*.h)
HEADERS := $(PUBLIC_HEADERS) $(wildcard src/*.h src/*/*.h protocol/*.h storage/*.h storage/*/*.h tools/*.h tools/*/*.h tests/*.h tests/*/*.h tests/*/*/*.h bench/*.h)

comma := ,
objects = $(patsubst %.cc,$(BUILD)/%.o,$(1))
STORAGE_OBJ := $(call objects,$(STORAGE_SRC))
PROTOCOL_OBJ := $(call objects,$(PROTOCOL_SRC))
SERVER_OBJ := $(call objects,$(SERVER_SRC))
LOAD_OBJ := $(call objects,$(LOAD_SRC))
JOIN_OBJ := $(call objects,$(JOIN_SRC))
FLOW_OBJ := $(call objects,$(FLOW_SRC))
TOOL_SHARED_OBJ := $(call objects,$(TOOL_SHARED_SRC))
ALLOC_TEST_SRC := $(wildcard tests/alloc/*.cc)
ALL_SRC := $(ALLOC_TEST_SRC) $(STORAGE_SRC) $(PROTOCOL_SRC) $(SERVER_SRC) src/main.cc $(LOAD_SRC) $(JOIN_SRC) $(FLOW_SRC) $(TOOL_SRC) $(TEST_SRC) $(BENCH_SRC) docs/example.cc
ALL_OBJ := $(call objects,$(ALL_SRC))
BENCH_BIN := $(patsubst bench/%.cc,$(BUILD)/bench/%,$(BENCH_SRC))

.PHONY: all serve demo check check-unit check-layers check-headers bench figures versus install uninstall print-directories dist asan ubsan tsan \
        sanitizer-run format check-format lint clean distclean help soak fuzz fuzz-build coverage
.SECONDARY:

PROGRAMS := $(BUILD)/kbfcached $(BUILD)/kbfload $(BUILD)/kbfplan $(BUILD)/kbfjoin $(BUILD)/kbfflow $(BUILD)/kbfctl

all: $(BUILD)/libkbf.a $(BUILD)/libkbf.so $(BUILD)/kbf.pc $(PROGRAMS)

$(BUILD)/%.o: %.cc config.h
	@mkdir -p $(@D)
	$(COMPILE) $(EXTRA_FLAGS) -c -o $@ $<

# The only object with another instruction set; it is entered only where the CPU has it.
$(BUILD)/storage/kbf_kernel_clmul.o: EXTRA_FLAGS = $(CLMUL_FLAGS)

$(BUILD)/libkbf.a: $(STORAGE_OBJ)
	@rm -f $@
	$(AR) rc $@ $^ && $(RANLIB) $@

# The shared library has objects of its own: position-independent, and without jemalloc, because a program that loads
# the library, such as Python, already has an allocator. storage/api/libkbf.map says which names it shows; so the
# compiler may inline the others, and needs no default visibility. Only what the public face needs is in it.
SONAME := libkbf.so.0
SHARED_OBJ := $(patsubst %.cc,$(BUILD)/pic/%.o,$(filter-out $(addprefix storage/,paper/% membership/% balance/% dba/% flow/%),$(STORAGE_SRC)))
SHARED_CXXFLAGS := -fPIC -fno-semantic-interposition -DKBF_NO_JEMALLOC

$(BUILD)/pic/%.o: %.cc config.h
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(filter-out -fPIE,$(HARDENING_CXXFLAGS)) $(CXXFLAGS) $(SHARED_CXXFLAGS) -MMD -MP $(EXTRA_FLAGS) -c -o $@ $<

$(BUILD)/pic/storage/kbf_kernel_clmul.o: EXTRA_FLAGS = $(CLMUL_FLAGS)

$(BUILD)/$(SONAME): $(SHARED_OBJ) storage/api/libkbf.map
	$(CXX) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=storage/api/libkbf.map -Wl,-z,defs $(CXXFLAGS) \
	  $(filter-out -pie,$(HARDENING_LDFLAGS)) $(LDFLAGS) -pthread -o $@ $(SHARED_OBJ) $(ZSTD_LIBS)

$(BUILD)/libkbf.so: $(BUILD)/$(SONAME)
	ln -sf $(SONAME) $@

$(BUILD)/kbf.pc: storage/kbf.pc.in config.mk
	@mkdir -p $(@D)
	@sed -e 's|@prefix@|$(prefix)|; s|@exec_prefix@|$(value exec_prefix)|; s|@libdir@|$(value libdir)|' \
	     -e 's|@includedir@|$(value includedir)|; s|@PACKAGE_VERSION@|$(PACKAGE_VERSION)|; s|@ZSTD_LIBS@|$(ZSTD_LIBS)|; s|@JEMALLOC_LIBS@|$(JEMALLOC_LIBS)|' $< > $@

LINK = $(CXX) $(HARDENING_CXXFLAGS) $(CXXFLAGS) $(HARDENING_LDFLAGS) $(LDFLAGS) -pthread -o $@ $^ \
  $(if $(filter %/libkbf.a,$^),$(ZSTD_LIBS)) $(ALLOC_LIBS)

$(BUILD)/kbfcached: $(BUILD)/src/main.o $(SERVER_OBJ) $(PROTOCOL_OBJ) $(BUILD)/libkbf.a
	$(LINK) $(EVENT_LIBS) $(URING_LIBS) $(TLS_LIBS)

$(BUILD)/kbfload: $(BUILD)/tools/kbfload.o $(BUILD)/tools/wrong_call.o $(LOAD_OBJ) $(BUILD)/protocol/client.o
	$(LINK) $(TLS_LIBS)

$(BUILD)/kbfctl: $(BUILD)/tools/kbfctl.o $(BUILD)/tools/wrong_call.o $(call objects,$(wildcard tools/cluster/*.cc)) $(BUILD)/protocol/base64.o $(BUILD)/libkbf.a
	$(LINK) $(EVENT_LIBS) $(TLS_LIBS)

$(BUILD)/kbfplan: $(BUILD)/tools/kbfplan.o $(BUILD)/tools/wrong_call.o $(BUILD)/libkbf.a
	$(LINK)

$(BUILD)/kbfjoin: $(BUILD)/tools/kbfjoin.o $(TOOL_SHARED_OBJ) $(JOIN_OBJ) $(BUILD)/libkbf.a
	$(LINK)

$(BUILD)/kbfflow: $(BUILD)/tools/kbfflow.o $(TOOL_SHARED_OBJ) $(FLOW_OBJ) $(BUILD)/libkbf.a
	$(LINK) $(PCAP_LIBS)

$(BUILD)/tests/unit: $(call objects,$(TEST_SRC)) $(SERVER_OBJ) $(PROTOCOL_OBJ) $(LOAD_OBJ) $(JOIN_OBJ) $(FLOW_OBJ) $(BUILD)/tools/files.o $(BUILD)/libkbf.a
	$(LINK) $(EVENT_LIBS) $(URING_LIBS) $(TLS_LIBS) $(PCAP_LIBS)

# Its operator new and, by --wrap, its C functions fail on demand, also those that the store and the server call.
$(BUILD)/tests/alloc_failure: $(call objects,$(ALLOC_TEST_SRC)) $(BUILD)/tools/kbfload/session_values.o $(SERVER_OBJ) $(PROTOCOL_OBJ) $(BUILD)/libkbf.a
	$(LINK) $(EVENT_LIBS) $(URING_LIBS) $(TLS_LIBS) $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc mmap)

$(BUILD)/docs/example: $(BUILD)/docs/example.o $(BUILD)/libkbf.a
	$(LINK)

$(BUILD)/bench/kbfload_bench: $(LOAD_OBJ) $(BUILD)/protocol/client.o
$(BUILD)/bench/kbfload_bench: LDLIBS = $(TLS_LIBS)
$(BUILD)/bench/eviction_sim: $(BUILD)/tools/kbfload/distribution.o
$(BUILD)/bench/compression_bench: $(BUILD)/tools/kbfload/session_values.o
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libkbf.a
	$(LINK) $(LDLIBS)

-include $(ALL_OBJ:.o=.d) $(SHARED_OBJ:.o=.d)

# ---- running and checking ------------------------------------------------------------------------------------------

# ARGS='-m 2048 -v' passes options on.
serve: $(PROGRAMS)
	@tools/serve $(BUILD) $(ARGS)

# A cluster of three on loopback, with an etcd of its own; Ctrl-C stops it. ARGS='-m 1024' passes options on.
PACKAGES_CLUSTER := etcd-server
.PHONY: cluster
cluster: $(PROGRAMS)
	@$(INSTALL_PACKAGES) 'for the cluster' $(PACKAGES_CLUSTER)
	@tools/run-cluster $(BUILD) $(ARGS)

# kbfcached and memcached side by side for half a minute; leaves nothing behind.
demo: $(PROGRAMS)
	@$(INSTALL_PACKAGES) 'for the demo' $(PACKAGES_DEMO)
	@tools/demo $(BUILD)

# tests/run prints one line per step and ends with "N passed, M failed".
check: all $(BUILD)/tests/unit $(BUILD)/tests/alloc_failure $(BUILD)/docs/example $(BUILD)/bench/fig20_balance
	@$(INSTALL_PACKAGES) 'to test' $(PACKAGES_TEST)
	@MAKE='$(MAKE) --no-print-directory' BUILD=$(BUILD) tests/run

check-unit: $(BUILD)/tests/unit
	$(BUILD)/tests/unit

check-layers:
	@tests/check-layers

# Every header stands on its own.
check-headers: config.h
	@for header in $(HEADERS); do \
	  $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(CLMUL_FLAGS) -fsyntax-only -x c++ -include $$header /dev/null || \
	    { echo "$$header does not compile on its own"; exit 1; }; \
	done; echo "$(words $(HEADERS)) headers compile on their own"

# The statistical tests again with other seeds and larger sizes, and every allocation that can fail.
soak: $(BUILD)/tests/unit $(BUILD)/tests/alloc_failure
	KBF_SOAK=1 $(BUILD)/tests/unit
	KBF_SOAK=1 $(BUILD)/tests/alloc_failure

# Good clients beside abusers of every kind, MINUTES for each of SOAK_BUILDS (see tests/soak/run for what is checked).
# SOAK_ARGS='--each 15' runs every kind of abuser alone, SOAK_ARGS=--tls everything over TLS.
MINUTES ?= 30
SOAK_BUILDS ?= plain asan tsan
SOAK_ARGS ?=
PACKAGES_SOAK := python3 gnuplot-nox
SOAK_DIR_plain := $(BUILD)
SOAK_DIR_asan := build-asan
SOAK_DIR_tsan := build-tsan
.PHONY: soak-server soak-server-asan soak-server-tsan soak-server-plain
soak-server: $(BUILD)/kbfload $(SOAK_BUILDS:%=soak-server-%)
	@$(INSTALL_PACKAGES) 'to soak' $(PACKAGES_SOAK)
	@tests/soak/run $(foreach name,$(SOAK_BUILDS),$(name)=$(SOAK_DIR_$(name))) --kbfload $(BUILD) --minutes $(MINUTES) $(SOAK_ARGS)
soak-server-plain: $(BUILD)/kbfcached
soak-server-asan:
	@$(MAKE) BUILD=build-asan SANITIZE=address build-asan/kbfcached
soak-server-tsan:
	@$(MAKE) BUILD=build-tsan SANITIZE=thread build-tsan/kbfcached

bench: $(BENCH_BIN)
	@bench/run $(BUILD)

# The papers' figures: runs bench/fig*, draws bench/results/figures/, writes docs/EVALUATION.md. QUICK=1: smaller sizes.
# FIGURES='fig20_balance ...' runs some of them, DRAW=1 none.
FIGURE_BIN := $(filter $(BUILD)/bench/fig% $(BUILD)/bench/kbf_speed,$(BENCH_BIN))
figures: $(PROGRAMS) $(FIGURE_BIN)
	@$(INSTALL_PACKAGES) 'to draw figures' $(PACKAGES_FIGURES)
	@bench/evaluate $(BUILD) $(if $(QUICK),--quick) $(if $(DRAW),--draw) $(FIGURES)

# kbfcached beside Debian's memcached; VERSUS=speed, memory, misses, hits or tls runs one part. QUICK=1: hits a quarter as large.
versus: all
	@$(INSTALL_PACKAGES) 'to compare' $(PACKAGES_VERSUS)
	@bench/versus $(if $(QUICK),--quick) $(BUILD) $(VERSUS)

asan:
	@$(MAKE) BUILD=build-asan SANITIZE=address sanitizer-run
ubsan:
	@$(MAKE) BUILD=build-ubsan SANITIZE=undefined sanitizer-run
# What has threads is tested under its sanitizer; the rest would only take long.
tsan:
	@$(MAKE) BUILD=build-tsan SANITIZE=thread TEST_ARGS='-tc=*thread*' sanitizer-run
sanitizer-run: $(BUILD)/tests/unit $(BUILD)/tests/alloc_failure $(BUILD)/docs/example $(PROGRAMS)
	$(BUILD)/docs/example
	$(BUILD)/tests/alloc_failure $(TEST_ARGS)
	$(BUILD)/tests/unit $(TEST_ARGS)
	BUILD=$(BUILD) KBF_SANITIZER=$(SANITIZE) tests/e2e/run

# ---- fuzzing and coverage ------------------------------------------------------------------------------------------

# Each tests/fuzz/<name>_fuzz.cc is a target. It is linked with an archive of everything but main.cc, from which the
# linker takes what the target needs, so a new target needs no line here. SECONDS=600 are shared out among the targets.
PACKAGES_FUZZ := clang libclang-rt-14-dev
FUZZ_SRC := $(wildcard tests/fuzz/*_fuzz.cc)
FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.cc,%,$(FUZZ_SRC))
FUZZ_SANITIZE := address,undefined
ALL_SRC += $(FUZZ_SRC)
fuzz:
	@$(INSTALL_PACKAGES) 'to fuzz' $(PACKAGES_FUZZ)
	@$(MAKE) --no-print-directory BUILD=build-fuzz CXX=clang++ WERROR= SANITIZE=fuzzer-no-link,$(FUZZ_SANITIZE) fuzz-build
	@tests/fuzz/run build-fuzz $(or $(SECONDS),600) $(JOBS) $(FUZZ_NAMES)
fuzz-build: $(patsubst %,$(BUILD)/fuzz/%,$(FUZZ_NAMES))
$(BUILD)/libeverything.a: $(STORAGE_OBJ) $(PROTOCOL_OBJ) $(SERVER_OBJ) $(LOAD_OBJ) $(JOIN_OBJ) $(FLOW_OBJ) $(BUILD)/tools/files.o
	@rm -f $@
	$(AR) rc $@ $^ && $(RANLIB) $@
$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%_fuzz.o $(BUILD)/libeverything.a
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -fsanitize=fuzzer,$(FUZZ_SANITIZE) -pthread -o $@ $^ $(ZSTD_LIBS) $(EVENT_LIBS) $(URING_LIBS) $(TLS_LIBS) $(PCAP_LIBS)
-include $(patsubst %.cc,$(BUILD)/%.d,$(FUZZ_SRC))

# Lines of protocol/ and src/ that the unit tests and the end-to-end tests run; fails below COVERAGE_MIN percent.
PACKAGES_COVERAGE := gcovr
COVERAGE_MIN ?= 90
coverage:
	@$(INSTALL_PACKAGES) 'to measure coverage' $(PACKAGES_COVERAGE) $(PACKAGES_TEST)
	@$(MAKE) --no-print-directory BUILD=build-coverage ALLOC_LIBS= \
	  CXXFLAGS='-O0 -g -std=c++20 --coverage -fprofile-update=atomic -DKBF_NO_JEMALLOC -Wall -Wextra' \
	  build-coverage/kbfcached build-coverage/kbfload build-coverage/tests/unit
	@tests/coverage build-coverage $(COVERAGE_MIN)

SOURCES = $(ALL_SRC) $(HEADERS)
format:
	@$(INSTALL_PACKAGES) 'to format' $(PACKAGES_FORMAT)
	clang-format -i $(SOURCES)
check-format:
	@$(INSTALL_PACKAGES) 'to check the format' $(PACKAGES_FORMAT)
	@clang-format --dry-run -Werror $(SOURCES) && echo 'the format is clean'
# A stamp per file and tool, so that a second run looks only at what has changed, and make runs JOBS of them at a time.
# Measured with clang-tidy 14 on storage/slab.cc and src/net/worker.cc: reading the file takes 2 s, the AST checks 5 s, and
# the analyzer with its defaults 18 s and 12 s, most of it following calls into the standard library and into the
# longest functions. LINT_ANALYZER stops the first and bounds the second: 5 s and 4 s, with all checks still on.
# cppcheck takes less than a second per file. All 75 files take 9 minutes 16 s of CPU, so 5 minutes on two idle cores,
# where one clang-tidy over all of them in a row took more than 38.
LINT_SRC = $(STORAGE_SRC) $(PROTOCOL_SRC) $(SERVER_SRC) src/main.cc $(LOAD_SRC) $(JOIN_SRC) $(FLOW_SRC) $(TOOL_SRC)
LINT_ANALYZER := $(addprefix -Xclang -analyzer-config -Xclang ,c++-stdlib-inlining=false max-nodes=75000)
LINT_STAMPS = $(patsubst %.cc,$(BUILD)/lint/%.tidy,$(LINT_SRC)) $(patsubst %.cc,$(BUILD)/lint/%.cppcheck,$(LINT_SRC))
lint: $(LINT_STAMPS)
	@echo '$(words $(LINT_SRC)) files: clang-tidy and cppcheck find nothing'
$(BUILD)/lint/packages: Makefile
	@$(INSTALL_PACKAGES) 'to lint' $(PACKAGES_LINT)
	@mkdir -p $(@D) && touch $@
$(BUILD)/lint/%.tidy: %.cc .clang-tidy config.h $(BUILD)/lint/packages
	@mkdir -p $(@D)
	@$(CXX) $(CPPFLAGS) -std=c++20 $(CLMUL_FLAGS) -MM -MP -MT '$@ $(@:.tidy=.cppcheck)' -MF $(@:.tidy=.d) $<
	@echo 'clang-tidy $<'; clang-tidy --quiet $< -- -std=c++20 $(CPPFLAGS) $(CLMUL_FLAGS) $(LINT_ANALYZER) 2> $@.log || \
	  { cat $@.log; exit 1; }
	@touch $@
$(BUILD)/lint/%.cppcheck: %.cc config.h $(BUILD)/lint/packages
	@mkdir -p $(@D)
	@cppcheck --quiet --std=c++20 --language=c++ --inline-suppr --error-exitcode=1 \
	  --enable=warning,performance,portability --suppress=missingIncludeSystem -I. -Istorage/include $<
	@touch $@
ifneq ($(filter lint,$(MAKECMDGOALS)),)
-include $(patsubst %.cc,$(BUILD)/lint/%.d,$(LINT_SRC))
endif

# ---- installing ----------------------------------------------------------------------------------------------------

UNIT_DIR = $(prefix)/lib/systemd/system

# Where Python looks for modules is not the same everywhere: docs/LIBRARY.md says what to set.
pythondir ?= $(libdir)/python3/dist-packages

install: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir)/kbf $(DESTDIR)$(pythondir) \
	  $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(docdir) $(DESTDIR)$(UNIT_DIR)
	install -m 755 $(PROGRAMS) $(DESTDIR)$(bindir)
	install -m 644 $(wildcard docs/*.1) $(DESTDIR)$(mandir)/man1
	install -m 644 docs/kbfcached.conf README.md $(DESTDIR)$(docdir)
	install -d $(DESTDIR)$(sysconfdir)
	test -e $(DESTDIR)$(sysconfdir)/kbfcached.conf || install -m 644 docs/kbfcached.conf $(DESTDIR)$(sysconfdir)
	sed -e 's|/usr/bin/|$(bindir)/|; s|/etc/kbfcached.conf|$(sysconfdir)/kbfcached.conf|' docs/kbfcached.service \
	  > $(DESTDIR)$(UNIT_DIR)/kbfcached.service
	install -m 644 $(BUILD)/libkbf.a $(BUILD)/$(SONAME) $(DESTDIR)$(libdir)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libkbf.so
	install -m 644 $(BUILD)/kbf.pc $(DESTDIR)$(libdir)/pkgconfig
	install -m 644 $(PUBLIC_HEADERS) $(DESTDIR)$(includedir)/kbf
	install -m 644 tools/python/kbf.py $(DESTDIR)$(pythondir)

# Removes the files that install puts there, by name, and directories of ours only when they are empty: a directory
# variable may be set to a place that others use too.
uninstall: config.mk
	rm -f $(patsubst $(BUILD)/%,$(DESTDIR)$(bindir)/%,$(PROGRAMS)) $(DESTDIR)$(libdir)/pkgconfig/kbf.pc
	rm -f $(addprefix $(DESTDIR)$(libdir)/,libkbf.a libkbf.so $(SONAME)) $(DESTDIR)$(pythondir)/kbf.py
	rm -f $(patsubst docs/%,$(DESTDIR)$(mandir)/man1/%,$(wildcard docs/*.1)) $(DESTDIR)$(UNIT_DIR)/kbfcached.service
	rm -f $(patsubst storage/include/%,$(DESTDIR)$(includedir)/%,$(PUBLIC_HEADERS))
	rm -f $(addprefix $(DESTDIR)$(docdir)/,kbfcached.conf README.md)
	-rmdir --ignore-fail-on-non-empty $(DESTDIR)$(includedir)/kbf $(DESTDIR)$(docdir)
	! cmp -s docs/kbfcached.conf $(DESTDIR)$(sysconfdir)/kbfcached.conf || rm -f $(DESTDIR)$(sysconfdir)/kbfcached.conf

# For tests/install_check.
DIRECTORIES := prefix bindir libdir pythondir includedir datadir docdir mandir sysconfdir
print-directories: config.mk
	@$(foreach name,$(DIRECTORIES),echo '$(name)=$($(name))';)

dist: config.mk
	git archive --prefix=kbfcached-$(PACKAGE_VERSION)/ -o kbfcached-$(PACKAGE_VERSION).tar.gz HEAD
	@echo kbfcached-$(PACKAGE_VERSION).tar.gz

clean:
	rm -rf build build-asan build-ubsan build-tsan build-fuzz build-coverage
distclean: clean
	rm -rf configure config.h.in config.h config.mk config.status config.log autom4te.cache kbfcached-*.tar.gz

help:
	@echo 'make            build everything into build/ (installs missing packages and configures first)'
	@echo 'make serve      the same, then run the server'
	@echo 'make cluster    three servers as one cache on 127.0.0.1, with an etcd of their own'
	@echo 'make demo       memcached and kbfcached side by side, with the same memory: who holds more?'
	@echo 'make check      the same, then every test; ends with "N passed, M failed"'
	@echo 'make soak       the statistical tests with more seeds and larger sizes'
	@echo 'make soak-server MINUTES=30     good clients beside abusers; plain, under ASan and under TSan (SOAK_BUILDS), MINUTES each'
	@echo 'make bench      in-process benchmarks; tables in bench/results/'
	@echo 'make figures QUICK=1            the figures of the papers, 5 minutes; without QUICK at full size; writes docs/EVALUATION.md'
	@echo 'make versus     side by side with memcached: speed, memory, misses, hits; tables in bench/results/'
	@echo 'make asan | ubsan | tsan    unit and end-to-end tests under a sanitizer, in their own build directory'
	@echo 'make fuzz       every fuzz target with clang, SECONDS=600 shared out among them; new inputs in build-fuzz/corpus'
	@echo 'make coverage   lines of protocol/ and src/ that the tests run; fails below 90 %'
	@echo 'make format | check-format | lint    clang-format; clang-tidy and cppcheck'
	@echo 'make install | uninstall    programs, libkbf.a, libkbf.so, headers, kbf.pc, kbf.py (DESTDIR, ./configure --prefix)'
	@echo '                            ./configure --disable-hardening leaves out what hardens the programs'
	@echo 'make dist       a source archive of the last commit'
	@echo 'make clean | distclean      remove what was built | and what was configured'
	@echo 'Settings: JOBS=n, WERROR= (warnings do not stop the build), BUILD=dir'
