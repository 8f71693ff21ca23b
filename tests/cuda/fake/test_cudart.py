"""Which of several runtime libraries of CUDA is loaded, and what is reported where there is none."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace

import pytest

from prototorch.cuda import cudart
from prototorch.errors import BackendError

NO_LOAD = getattr(os, "RTLD_NOLOAD", None)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Libraries that can be loaded by name, and those that are loaded already; an empty package nvidia."""
    state = SimpleNamespace(loadable=set(), loaded=set(), pathfinder=None, folder=tmp_path / "nvidia")
    monkeypatch.delenv(cudart.CUDART_VARIABLE, raising=False)

    def load(name, mode=ctypes.DEFAULT_MODE):
        if mode == NO_LOAD and name not in state.loaded:
            raise OSError(f"{name} is not loaded")
        if name not in state.loadable | state.loaded and not os.path.isfile(name):
            raise OSError(f"{name}: cannot open shared object file")
        state.loaded.add(name)

    def module(name):
        if name == "cuda.pathfinder" and state.pathfinder:
            return SimpleNamespace(load_nvidia_dynamic_lib=lambda _: SimpleNamespace(abs_path=state.pathfinder))
        raise ImportError(name)

    monkeypatch.setattr(cudart.ctypes, "CDLL", load)
    monkeypatch.setattr(cudart.importlib, "import_module", module)
    package = SimpleNamespace(submodule_search_locations=[str(state.folder)])
    monkeypatch.setattr(cudart.importlib.util, "find_spec", lambda _: package)
    monkeypatch.setattr(cudart, "loaded_cudarts", lambda: ())
    yield state
    os.environ.pop(cudart.CUDART_VARIABLE, None)


def install_wheel(state, folder, soname):
    path = state.folder / folder / "lib" / soname
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path)


def test_the_library_of_a_pip_package(machine):
    path = install_wheel(machine, "cu13", "libcudart.so.13")
    assert cudart.load_cudart(13) == path
    assert os.environ[cudart.CUDART_VARIABLE] == path, "cuDNN's graph API loads the same"


def test_the_pip_package_of_the_version_of_cupy(machine):
    """With packages of both versions, as beside a PyTorch for the other version."""
    paths = {13: install_wheel(machine, "cu13", "libcudart.so.13")}
    paths[12] = install_wheel(machine, "cuda_runtime", "libcudart.so.12")
    assert cudart.load_cudart(12) == paths[12]
    assert machine.loaded == {paths[12]}, "never two versions"


@pytest.mark.skipif(NO_LOAD is None, reason="the system does not tell what is loaded")
@pytest.mark.parametrize("soname", ["libcudart.so.12", "libcudart.so.13"])
def test_one_that_is_loaded_already_is_taken(machine, soname):
    install_wheel(machine, "cu13", "libcudart.so.13")
    machine.loaded = {soname}
    assert cudart.load_cudart(13) == soname
    assert machine.loaded == {soname}, "never two versions"


def test_the_library_of_the_system(machine):
    machine.loadable = {"libcudart.so.12", "libcudart.so.13"}
    assert cudart.load_cudart(12) == "libcudart.so.12"
    assert machine.loaded == {"libcudart.so.12"}


def test_the_library_that_pathfinder_finds(machine):
    machine.pathfinder = "/opt/conda/lib/libcudart.so.13"
    assert cudart.load_cudart(13) == machine.pathfinder


def test_the_library_that_the_user_names(machine, monkeypatch):
    machine.loadable = {"libcudart.so.13", "/opt/own/libcudart.so.13"}
    monkeypatch.setenv(cudart.CUDART_VARIABLE, "/opt/own/libcudart.so.13")
    assert cudart.load_cudart(13) == "/opt/own/libcudart.so.13"
    assert machine.loaded == {"/opt/own/libcudart.so.13"}
    monkeypatch.setenv(cudart.CUDART_VARIABLE, "/gone/libcudart.so.13")
    with pytest.raises(BackendError, match=f"{cudart.CUDART_VARIABLE} names a library that cannot be loaded: /gone"):
        cudart.load_cudart(13)


@pytest.mark.parametrize(("major", "package"), [(13, "nvidia-cuda-runtime,"), (12, "nvidia-cuda-runtime-cu12,")])
def test_without_one_the_package_is_named(machine, major, package):
    with pytest.raises(BackendError) as error:
        cudart.load_cudart(major)
    assert f"libcudart.so.{major} is not found" in str(error.value)
    assert f"install the package {package}" in str(error.value)
    assert cudart.CUDART_VARIABLE not in os.environ


def test_paths_of_loaded_libraries(monkeypatch, tmp_path):
    maps = tmp_path / "maps"
    line = "7f0000000000-7f0000001000 r--p 00000000 08:01 1234                       {}\n"
    paths = ["/a b/libcudart.so.13", "/a b/libcudart.so.13", "/lib/libc.so.6", "/c/libcudart.so.12.8.90"]
    maps.write_text("".join(map(line.format, paths)) + "7f-80 rw-p 0 0:0 0\n")
    monkeypatch.setattr(cudart, "_MAPPED_FILES", maps)
    assert cudart.loaded_cudarts() == ("/a b/libcudart.so.13", "/c/libcudart.so.12.8.90")
    monkeypatch.setattr(cudart, "_MAPPED_FILES", tmp_path / "none")
    assert cudart.loaded_cudarts() == ()
