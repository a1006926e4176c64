"""Builds the extension modules, and writes the table module and the stubs from `schema/`."""

import importlib.util
import os
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Errors
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, PlatformError

HERE = Path(__file__).parent
MODULES = sorted(path.relative_to(HERE) for path in (HERE / "onnxwire").rglob("*.pyx"))
HEADERS = sorted(str(path.relative_to(HERE)) for path in (HERE / "onnxwire").rglob("*.h"))

# Not that attributes of Python objects are not guarded by the lock of a function's first argument: ours is another.
Errors.LEVEL = 2

# What Python was built with is passed on, often -g, which takes a third of the time and most of the size.
# -O2 would take a sixth of the time less, and be a twelfth smaller; but `verify` takes a quarter more then, and
# packed runs a tenth. What walks and checks take is the same.
compile_args = ["-O3", "-g0", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
link_args = ["-pthread"]
directives = {"language_level": 3, "freethreading_compatible": True}  # who runs when: `onnxwire/engine/section.h`
if sys.platform == "win32":
    compile_args, link_args = ["/O2"], []
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # In every module, whatever it imports: what Cython writes for `@critical_section` means another lock without it.
    section = str(HERE / "onnxwire" / "engine" / "section.h")
    compile_args += [f"/FI{section}"] if sys.platform == "win32" else ["-include", section]
if os.environ.get("ONNXWIRE_WERROR"):
    compile_args.append("-Werror")
sanitized = os.environ.get("ONNXWIRE_SANITIZE")
if sanitized:
    sanitizers = "-fsanitize=thread" if sanitized == "thread" else "-fsanitize=address,undefined"
    compile_args += [sanitizers, "-fno-sanitize-recover=undefined", "-g", "-O1"]
    compile_args += ["-DONNXWIRE_SMALL_LIMITS", "-DCYTHON_USE_FREELISTS=0"]  # short inputs go the long ways too
    link_args += [sanitizers]
    if sanitized == "coverage":  # for libFuzzer, by clang
        compile_args += ["-fsanitize=fuzzer-no-link"]
if os.environ.get("ONNXWIRE_TRACE"):  # so that sys.settrace sees each line
    compile_args += ["-O1", "-DCYTHON_TRACE_NOGIL=1", "-DCYTHON_USE_SYS_MONITORING=0"]
    directives["linetrace"] = True


def write_generated() -> None:
    """Write the modules that come out of `schema/`: the tables as literals, and the stubs of the message classes."""
    spec = importlib.util.spec_from_file_location("_generate", HERE / "schema" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    generate.write(HERE)


class BuildFromCython(build_ext):
    """Translates the modules when they are built, not when only the project's name is asked for, and then compiles."""

    def build_extensions(self) -> None:
        """Look for a compiler before the work of half a minute, then translate and compile."""
        self.find_compiler()
        translated = cythonize(
            self.extensions,
            annotate=bool(os.environ.get("ONNXWIRE_ANNOTATE")),
            compiler_directives=directives,
            nthreads=os.cpu_count() or 1,
        )
        made = {extension.name: extension for extension in translated}
        for extension in self.extensions:
            extension.sources = made[extension.name].sources
            extension.include_dirs = made[extension.name].include_dirs  # of the headers that .pxd files name
            extension.depends = made[extension.name].depends
        super().build_extensions()

    def find_compiler(self) -> None:
        """Compile two lines; raises PlatformError, with what to install, where that fails."""
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


class BuildWithSwitch(build_py):
    """Puts the line that reads ONNXWIRE_DROPIN at the start of Python beside the package, into site-packages."""

    SWITCH = "onnxwire_dropin.pth"

    def run(self) -> None:
        """Build the package, then copy the line."""
        super().run()
        self.copy_file(self.SWITCH, os.path.join(self.build_lib, self.SWITCH), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Every file that is built."""
        return [*super().get_outputs(include_bytecode), os.path.join(self.build_lib, self.SWITCH)]


# On macOS and Windows the processes that translate the modules import this file first.
if __name__ == "__main__":
    write_generated()
    setup(
        ext_modules=[
            Extension(
                ".".join(path.with_suffix("").parts),
                [str(path)],
                extra_compile_args=compile_args,
                extra_link_args=link_args,
                depends=HEADERS,
            )
            for path in MODULES
        ],
        cmdclass={"build_ext": BuildFromCython, "build_py": BuildWithSwitch},
        options={"build_ext": {"parallel": True}},
    )
