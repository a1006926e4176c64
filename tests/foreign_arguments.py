"""Call attributes of extension types, and functions of extension modules, with objects of wrong types:
`foreign_arguments.py [START]`.

A call may raise or return anything, but not crash. The program prints an index and a name before each group of calls,
such as those of one attribute, so that after a crash the last line names the group. START is the index of the first
group to run; earlier groups that make objects without a constructor are run, too. Run the program in a child
process, in a temporary folder.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
import gc
import importlib
import importlib.machinery
import itertools
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxwire

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the class was made at run time, as by a class statement
OBJECT_ATTRIBUTES = set(dir(object))


def extension_modules() -> list[types.ModuleType]:
    """Import and return the extension modules of the package, except onnxwire.dropin.audit."""
    root = Path(onnxwire.__file__).parent
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    names = [".".join(path.relative_to(root.parent).parts)[: -len(suffix)] for path in sorted(root.rglob(f"*{suffix}"))]
    # After a call of the function of onnxwire.dropin.audit with a wrong object, files can't be opened for writing.
    return [importlib.import_module(name) for name in names if name != "onnxwire.dropin.audit"]


def subclasses(cls: type) -> Iterator[type]:
    """Yield a class and all classes derived from it."""
    yield cls
    for derived in type.__subclasses__(cls):
        yield from subclasses(derived)


def extension_types() -> list[type]:
    """Return every message class and every class that the extension modules implement, also those without a public
    name."""
    names = {module.__name__ for module in extension_modules()} | {"onnxwire"}
    onnxwire.load_schema(str(Path(__file__).with_name("everything.md")))
    message = importlib.import_module("onnxwire.engine.message").Message
    return list(
        dict.fromkeys(
            cls
            for cls in subclasses(object)
            if issubclass(cls, message) or (cls.__module__ in names and not cls.__flags__ & HEAP_TYPE)
        )
    )


def model() -> onnxwire.ModelProto:
    """Return a model with nested messages, strings, numbers and packed numbers."""
    tensor = onnxwire.TensorProto(name="w", dims=[2], data_type=1, float_data=[1, 2])
    node = {
        "op_type": "Add",
        "input": ["a", "w"],
        "output": ["b"],
        "attribute": [{"name": "k", "ints": [1, 2], "type": 7}],
    }
    message = onnxwire.ModelProto(ir_version=8, graph={"name": "g", "node": [node, node], "initializer": [tensor]})
    return onnxwire.ModelProto.FromString(message.SerializeToString())


def instances() -> dict[type, list[Callable[[], Any]]]:
    """Return a dict: type → functions that make objects of this type."""
    from partial_documents import partial_document

    from onnxwire.arrow._columns import Columns
    from onnxwire.checker._facts import Facts
    from onnxwire.checker._problem import Problem
    from onnxwire.checker._scopes import Scopes
    from onnxwire.engine.document import Document
    from onnxwire.engine.encoder import Encoder
    from onnxwire.engine.search import Paths, Search

    def edited_model() -> onnxwire.ModelProto:
        message = model()
        message.graph.node.add(op_type="Relu")
        message.graph.initializer[0].dims.append(3)
        return message

    # b"\x08\x01" is the number 1 in field 1.
    makers: list[Callable[[], Any]] = [
        model,
        edited_model,
        onnxwire.NodeProto,
        onnxwire.TensorProto,
        lambda: model().graph.node,
        lambda: edited_model().graph.node,
        lambda: iter(model().graph.node),
        lambda: iter(edited_model().graph.node),
        lambda: model().graph.initializer[0].dims,
        lambda: edited_model().graph.initializer[0].dims,
        lambda: iter(model().graph.initializer[0].dims),
        lambda: model().graph._payload("name"),
        lambda: model()._document,
        lambda: Document(b"\x08\x01"),
        lambda: partial_document(b"\x08\x01"),
        lambda: partial_document(b"\x08\x01").memory,
        lambda: onnxwire.ModelProto._table,
        lambda: Paths(),
        lambda: Search(model(), [onnxwire.NodeProto]),
        lambda: Encoder(False),
        lambda: Columns([("a", "int64")], model()._document),
        lambda: Facts(model()._document, onnxwire.ModelProto),
        lambda: Scopes(Facts(model()._document, onnxwire.ModelProto)),
        lambda: Problem("rule", "error", "graph", 5, "text"),
    ]
    makers_by_type: dict[type, list[Callable[[], Any]]] = {}
    for maker in makers:
        makers_by_type.setdefault(type(maker()), []).append(maker)
    return makers_by_type


def uninitialised_objects_of(cls: type) -> Iterator[Any]:
    """Yield objects of a class and of subclasses, made in ways that skip the constructor or pass it no arguments."""
    makers = [
        lambda: cls.__new__(cls),
        lambda: object.__new__(cls),
        lambda: copyreg.__newobj__(cls),  # type: ignore[attr-defined]
        lambda: copyreg._reconstructor(cls, object, None),  # type: ignore[attr-defined]
        # The opcodes GLOBAL (the class), EMPTY_TUPLE, NEWOBJ and STOP.
        lambda: pickle.loads(b"c%s\n%s\n)\x81." % (cls.__module__.encode(), cls.__qualname__.encode())),
        lambda: cls(),
        lambda: type("Derived", (cls,), {})(),
        lambda: type("Derived", (cls,), {"__slots__": (), "__init__": lambda self: None})(),
        lambda: type("Derived", (cls,), {"__new__": lambda c: object.__new__(c)})(),
    ]
    for make in makers:
        with contextlib.suppress(Exception):
            yield make()


def calls(
    cls: type, make_foreign_objects: Callable[[], list[Any]], own_makers: list[Callable[[], Any]]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, function) for each attribute of a class, except inherited ones that `object` has too: the function
    calls it with objects of wrong types. The last function copies, pickles and prints objects of the class.

    make_foreign_objects: returns new objects of many types. Each attribute gets new ones, since calls that extend a
    sequence by itself would otherwise make millions of elements. own_makers: functions that return objects of the
    class.
    """
    names = [name for name in dir(cls) if name not in OBJECT_ATTRIBUTES or name in vars(cls)]
    for name in names:
        if name in ("__class__", "__subclasshook__", "__init_subclass__", "__abstractmethods__"):
            continue

        def call_attribute(name: str = name) -> None:
            descriptor = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
            foreign_objects = make_foreign_objects()
            argument_lists = [
                tuple(arguments)
                for n in range(5)
                for arguments in ((None,) * n, foreign_objects[n : 2 * n], foreign_objects[-n:] if n else ())
            ]
            makers = [*(lambda value=value: value for value in foreign_objects), *own_makers]
            for make, arguments in itertools.product(makers, argument_lists):
                with contextlib.suppress(Exception):
                    getattr(cls, name)(make(), *arguments)
                with contextlib.suppress(Exception):
                    getattr(make(), name)(*arguments)
            with contextlib.suppress(Exception):
                getattr(cls, name)()
            for make in makers:
                for method in ("__get__", "__set__", "__delete__"):
                    for arguments in ((make(),), (make(), None), (make(), foreign_objects[-1])):
                        with contextlib.suppress(Exception):
                            getattr(descriptor, method)(*arguments)

        yield f"{cls.__module__}.{cls.__qualname__}.{name}", call_attribute

    def copy_pickle_and_print() -> None:
        for make in own_makers:
            for function in (
                copy.copy,
                copy.deepcopy,
                repr,
                str,
                hash,
                iter,
                len,
                bool,
                memoryview,
                list,
                dir,
                gc.get_referents,
            ):
                with contextlib.suppress(Exception):
                    function(make())
            for protocol in range(6):
                with contextlib.suppress(Exception):
                    pickle.loads(pickle.dumps(make(), protocol))
                with contextlib.suppress(Exception):
                    maker, arguments, *_ = object.__reduce_ex__(make(), protocol)
                    repr(maker(*arguments))

    yield f"{cls.__module__}.{cls.__qualname__} copied, pickled and printed", copy_pickle_and_print


def class_assignments(makers: dict[type, list[Callable[[], Any]]]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, function) for each class: the function assigns all other classes to `__class__` of an object.

    makers: the result of `instances`. Classes of extension modules that it lacks are excluded. The assignments must
    fail, because later accesses would crash.
    """
    types_ = [cls for cls in extension_types() if cls.__flags__ & HEAP_TYPE or cls in makers]
    for cls in types_:

        def assign_classes(cls: type = cls) -> None:
            for other_class in types_:
                if cls is other_class:
                    continue
                try:
                    instance = (
                        # Field 1: the number 1; field 2: "a"; field 3: a message whose field 1 is 1.
                        cls.FromString(b"\x08\x01\x12\x01a\x1a\x02\x08\x01")
                        if hasattr(cls, "FromString")
                        else makers[cls][0]()
                    )
                except Exception:
                    continue
                for assign in (object.__setattr__, setattr):
                    with contextlib.suppress(Exception):
                        assign(instance, "__class__", other_class)
                        raise SystemExit(f"{cls} became {other_class}")

        yield f"{cls.__module__}.{cls.__qualname__}.__class__ assigned", assign_classes


def module_functions(make_foreign_objects: Callable[[], list[Any]]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, call) for each function of the extension modules: `call` calls the function with 0 to 5 objects of
    wrong types."""
    for module in extension_modules():
        for name, value in vars(module).items():
            if not isinstance(value, types.BuiltinFunctionType) or value.__module__ != module.__name__:
                continue

            def call_function(value: Any = value) -> None:
                foreign_objects = make_foreign_objects()
                for n in range(6):
                    for arguments in itertools.islice(itertools.product(foreign_objects, repeat=n), 400):
                        with contextlib.suppress(Exception):
                            value(*arguments)
                for argument in foreign_objects:
                    for n in range(5):
                        with contextlib.suppress(Exception):
                            value(argument, *foreign_objects[:n])

            yield f"{module.__name__}.{name}", call_function


def all_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each group of calls as (name, function)."""
    import onnx

    makers = instances()

    def make_foreign_objects() -> list[Any]:
        objects: list[Any] = [None, 5, [], object(), "a", b"\x08\x01", onnx.ModelProto(), onnx.TensorProto().dims]
        return objects + [make() for type_makers in makers.values() for make in type_makers]

    uninitialised_objects: list[Any] = []
    types_ = extension_types()
    for cls in types_:
        yield (
            f"{cls.__module__}.{cls.__qualname__} made without its constructor",
            lambda cls=cls: uninitialised_objects.extend(uninitialised_objects_of(cls)),
        )
        own_uninitialised_objects = [instance for instance in uninitialised_objects if isinstance(instance, cls)]
        # A maker of `makers` returns a new object for each call, since a call may close or empty its argument.
        own_makers = [lambda instance=instance: instance for instance in own_uninitialised_objects]
        own_makers += makers.get(cls, [])
        if issubclass(cls, onnxwire.Message) and cls.__name__ not in (
            "Message",
            "ModelProto",
            "TensorProto",
            "Everything",
        ):
            continue  # other message classes have the same methods, and CPython checks the arguments of descriptors
        yield from calls(cls, make_foreign_objects, own_makers)
    yield from class_assignments(makers)
    yield from module_functions(make_foreign_objects)


def main() -> None:
    """Run the groups from index START on, and before it those that make objects without a constructor."""
    start = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    gc.disable()
    for i, (name, call) in enumerate(all_calls()):
        if i < start and "made without" not in name:
            continue
        os.write(1, f"{i} {name}\n".encode())
        call()
    os.write(1, b"all called\n")


if __name__ == "__main__":
    main()
