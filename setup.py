"""Build the extension modules, and write the files that are generated from `schema/`."""

import contextlib
import gc
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Errors
from Cython.Compiler.Code import UtilityCode
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, PlatformError

ROOT = Path(__file__).parent
MODULES = sorted(path.relative_to(ROOT) for path in (ROOT / "onnxwire").rglob("*.pyx"))
HEADERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "onnxwire").rglob("*.h"))
# The module with the code that Cython generates for typed memoryviews, instead of a copy in each module that uses them.
SHARED = "onnxwire._cython"
# Modules with loops over bytes, which -O3 makes faster: `verify` by a quarter, packed runs by a tenth. The other
# modules are compiled with -O2, in a fifth less time.
LOOP_MODULES = {
    "onnxwire._varint",
    "onnxwire.analysis._sums",
    "onnxwire.arrow._columns",
    "onnxwire.arrow._rows",
    "onnxwire.checker._facts",
    "onnxwire.engine.edit",
    "onnxwire.engine.encode",
    "onnxwire.engine.encoder",
    "onnxwire.engine.numbers",
    "onnxwire.engine.short_message",
    "onnxwire.engine.verify",
    "onnxwire.engine.view",
    "onnxwire.tensor.bits",
}

# Show errors only: Cython also warns that `@critical_section`, which locks the first argument, does not protect Python
# attributes. In this project, the decorator uses another lock (`onnxwire/engine/section.h`).
Errors.LEVEL = 2

# Cython's syntax trees live until their module is translated. With Python's default threshold, the garbage collector
# traverses them so often that translation takes 30 % more CPU time. With this threshold, a process needs 17 MB more
# memory.
gc.set_threshold(100_000, 50, 100)

# If the list of a comprehension cannot grow, the function ListCompAppendAndDecref of Cython 3.3.0 and 3.3.1 releases
# the element, and its caller releases it again: a double free. Earlier versions do not have the function.
# `tests/test_oom.py` tests `sort(key=...)` of a repeated field, which makes the list of keys in a comprehension.
with contextlib.suppress(KeyError):
    append_code = UtilityCode.load_cached("ListCompAppendAndDecref", "Optimize.c")
    append_code.impl = append_code.impl.replace("    Py_DECREF(x);\n", "    if (result == 0) Py_DECREF(x);\n")

# Python adds the flags of its own build. Often -g is among them, which takes a third of the compile time and most of
# the size.
compile_args = ["-g0", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
link_args = ["-pthread"]
optimize, optimize_loops = ["-O2"], ["-O3"]
directives = {
    "language_level": 3,
    "freethreading_compatible": True,  # threads: `onnxwire/engine/section.h`
    # Methods are CPython's method descriptors, which check the type of `self`; Cython's own functions do not.
    "binding": False,
    # Method descriptors have their signatures in the docstrings, in the form that `inspect.signature` reads.
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "allow_none_for_extension_args": False,  # None raises TypeError; its C fields would be invalid memory
}
sanitizer = os.environ.get("ONNXWIRE_SANITIZE")
is_traced = os.environ.get("ONNXWIRE_TRACE")
if sys.platform == "win32":
    compile_args, link_args, optimize, optimize_loops = [], [], ["/O2"], ["/O2"]
elif not sanitizer:  # sanitizers check more, but not the calls of fortified functions
    compile_args += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
    if sys.platform.startswith("linux"):
        link_args += ["-Wl,-z,relro", "-Wl,-z,now"]  # pointers to functions are read-only after a module is loaded
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # In every module: without this header, `@critical_section` locks the first argument.
    section = str(ROOT / "onnxwire" / "engine" / "section.h")
    compile_args += [f"/FI{section}"] if sys.platform == "win32" else ["-include", section]
if os.environ.get("ONNXWIRE_WERROR"):
    compile_args.append("-Werror")
if sanitizer:
    sanitizers = "-fsanitize=thread" if sanitizer == "thread" else "-fsanitize=address,undefined"
    compile_args += [sanitizers, "-fno-sanitize-recover=undefined", "-g"]
    # With small limits, short inputs also reach the code for long inputs. Cython's free lists would
    # hide uses of released objects.
    compile_args += ["-DONNXWIRE_SMALL_LIMITS", "-DCYTHON_USE_FREELISTS=0"]
    link_args += [sanitizers]
    optimize = optimize_loops = ["-O1"]
    if sanitizer == "coverage":  # edge counters for libFuzzer; needs clang
        compile_args += ["-fsanitize=fuzzer-no-link"]
if is_traced:  # so that sys.settrace reports each line
    compile_args += ["-U_FORTIFY_SOURCE", "-DCYTHON_TRACE_NOGIL=1", "-DCYTHON_USE_SYS_MONITORING=0"]
    optimize = optimize_loops = ["-O1"]
    directives["linetrace"] = True


def write_generated_files() -> None:
    """Write the files that are generated from `schema/`: the tables as literals, the stubs of the message classes, and
    `onnxwire.h`."""
    spec = importlib.util.spec_from_file_location("_generate", ROOT / "schema" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    generate.write(ROOT)


def make_extension(name: str, source: str) -> Extension:
    """Return the extension module of a source, with its flags."""
    flags = [*(optimize_loops if name in LOOP_MODULES else optimize), *compile_args]
    depends = [*HEADERS, "setup.py"]
    return Extension(name, [source], extra_compile_args=flags, extra_link_args=link_args, depends=depends)


class BuildFromCython(build_ext):
    """The command build_ext. It translates the .pyx files only when modules are built, not when setuptools reads the
    metadata."""

    def finalize_options(self) -> None:
        """Use all processors by default. Do not delete the object files of an in-place build, so that the next build
        compiles only changed modules."""
        super().finalize_options()
        self.parallel = self.parallel or True
        self.n_built = 0
        if self.inplace:
            tag = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
            self.build_lib, self.build_temp = f"build/lib.{tag}", f"build/temp.{tag}"

    def build_extensions(self) -> None:
        """Check that a C compiler works, before the translation, which takes half a minute. Then translate and compile,
        with ccache if it is installed and CC is not set."""
        if shutil.which("ccache") and "CC" not in os.environ and self.compiler.compiler_type == "unix":
            for step in ["compiler", "compiler_so"]:
                self.compiler.set_executable(step, ["ccache", *getattr(self.compiler, step)])
        self.check_compiler()
        # Cython compares only the times of the sources, but its output also depends on the settings in this file.
        translations = [path.with_suffix(".c") for path in MODULES]
        is_stale = any(
            path.exists() and path.stat().st_mtime < Path("setup.py").stat().st_mtime for path in translations
        )
        translated = cythonize(
            self.extensions,
            force=is_stale,
            annotate=bool(os.environ.get("ONNXWIRE_ANNOTATE")),
            compiler_directives=directives,
            nthreads=os.cpu_count() or 1,
            shared_utility_qualified_name=SHARED,
        )
        translated_by_name = {extension.name: extension for extension in translated}
        for extension in self.extensions:
            translation = translated_by_name[extension.name]
            extension.sources = translation.sources
            extension.include_dirs = translation.include_dirs
            extension.depends = translation.depends
        # Compile the largest modules first. If a large module started last, the other processors would be idle.
        self.extensions.sort(key=lambda extension: -sum(map(os.path.getsize, extension.sources)))
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Compile a module if a file on which it depends has changed; print the progress."""
        path = Path(self.get_ext_fullpath(ext.name))
        old_time = path.stat().st_mtime_ns if path.exists() else None
        super().build_extension(ext)
        self.n_built += 1
        if path.stat().st_mtime_ns != old_time:
            print(f"[{self.n_built}/{len(self.extensions)}] compiled {ext.name}\n", end="", flush=True)

    def check_compiler(self) -> None:
        """Compile a short program. Raises PlatformError with advice if that fails."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("#include <Python.h>\nint main(void) { return 0; }\n")
            try:
                self.compiler.compile([str(source)], output_dir=folder, include_dirs=self.include_dirs)
            except CompileError as error:
                raise PlatformError(
                    "building onnxwire needs a C compiler and Python's headers (Debian: apt install gcc python3-dev; "
                    "macOS: xcode-select --install; Windows: Build Tools for Visual Studio); a wheel needs neither: "
                    "pip install --only-binary onnxwire onnxwire"
                ) from error


class BuildWithPthFile(build_py):
    """The command build_py. It also installs the .pth file into site-packages. This file reads the variable
    ONNXWIRE_DROPIN when Python starts."""

    PTH_FILE = "onnxwire_dropin.pth"

    def run(self) -> None:
        """Build the package, then copy the .pth file."""
        super().run()
        self.copy_file(self.PTH_FILE, os.path.join(self.build_lib, self.PTH_FILE), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return every file that is built."""
        return [*super().get_outputs(include_bytecode), os.path.join(self.build_lib, self.PTH_FILE)]


# The processes that translate the modules import this file unless they are forks of this process.
if __name__ == "__main__":
    write_generated_files()
    modules = [make_extension(".".join(path.with_suffix("").parts), str(path)) for path in MODULES]
    setup(
        ext_modules=[*modules, make_extension(SHARED, f"{SHARED.replace('.', '/')}.c")],
        cmdclass={"build_ext": BuildFromCython, "build_py": BuildWithPthFile},
    )
