//! Where CUDA's libraries are looked for: in folders that the user names, in `LD_LIBRARY_PATH`, in the nvidia
//! packages of Python environments, in the usual folders.

use forebay_model::input::shown;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A library that is opened at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// Common name of the library.
    pub name: &'static str,
    /// File name, with the version of the interface. A file of a minor version, such as `libname.so.13.2`, will do too.
    pub file: &'static str,
    /// Python package that contains the library.
    pub package: &'static str,
}

/// Built-in functions of NVRTC, which NVRTC opens itself.
const BUILT_INS: Library = Library {
    name: "NVRTC's built-ins",
    file: "libnvrtc-builtins.so.13",
    package: "nvidia-cuda-nvrtc==13.0.88",
};
/// Compiler of kernels.
pub const NVRTC: Library =
    Library { name: "NVRTC", file: "libnvrtc.so.13", package: "nvidia-cuda-nvrtc==13.0.88" };
/// Library that cuBLAS needs.
const CUBLAS_LT: Library =
    Library { name: "cuBLASLt", file: "libcublasLt.so.13", package: "nvidia-cublas" };
/// Products of matrices.
pub const CUBLAS: Library =
    Library { name: "cuBLAS", file: "libcublas.so.13", package: "nvidia-cublas" };
/// Convolutions.
pub const CUDNN: Library =
    Library { name: "cuDNN", file: "libcudnn.so.9", package: "nvidia-cudnn-cu13" };

/// Libraries that are needed besides the driver; each comes after the libraries that it needs.
pub const LIBRARIES: [Library; 5] = [BUILT_INS, NVRTC, CUBLAS_LT, CUBLAS, CUDNN];

/// Library that collectives among GPUs need in addition.
pub const NCCL: Library =
    Library { name: "NCCL", file: "libnccl.so.2", package: "nvidia-nccl-cu13" };

/// Environment variable with the user's folders of libraries, separated by colons, in the order of the search.
pub const VARIABLE: &str = "FOREBAY_CUDA_LIBS";

/// Returns the folders to search for libraries, in order.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    folders_by(&|name| std::env::var_os(name), python_packages)
}

/// Returns the folders to search for libraries. `variable` reads an environment variable; `python` asks Python
/// for its nvidia packages.
fn folders_by(
    variable: &dyn Fn(&str) -> Option<OsString>,
    python: impl FnOnce() -> Vec<PathBuf>,
) -> Vec<PathBuf> {
    let parts = |name: &str| -> Vec<PathBuf> {
        variable(name).map_or_else(Vec::new, |value| std::env::split_paths(&value).collect())
    };
    let mut folders = Vec::new();
    for named in parts(VARIABLE) {
        folders.push(named.clone());
        folders.extend(packages(&named));
    }
    folders.extend(parts("LD_LIBRARY_PATH"));
    let homes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable);
    let mut environments: Vec<PathBuf> = homes.flat_map(|home| site(Path::new(&home))).collect();
    environments.extend(python());
    folders.extend(environments.iter().flat_map(|nvidia| packages(nvidia)));
    let usual =
        ["/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"];
    folders.extend(usual.map(PathBuf::from));
    folders.retain(|folder| folder.is_dir());
    let mut once = Vec::new();
    for folder in folders {
        if !once.contains(&folder) {
            once.push(folder);
        }
    }
    once
}

/// Returns the folders `nvidia/*/lib`, in order of name.
fn packages(nvidia: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(nvidia).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join("lib")).collect();
    found.sort();
    found
}

/// Returns the folders of nvidia packages in the Python environment at `home`.
fn site(home: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.join("lib")).into_iter().flatten().flatten();
    let python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    };
    let mut versions: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(python).collect();
    versions.sort();
    versions.iter().map(|version| version.join("site-packages/nvidia")).collect()
}

/// Asks the first `python3` on the path for the folders of its nvidia packages.
fn python_packages() -> Vec<PathBuf> {
    const ASK: &str = "import nvidia\nfor p in nvidia.__path__: print(p)";
    let answer = Command::new("python3")
        .args(["-c", ASK])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = answer.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(PathBuf::from).collect()
}

impl Library {
    /// Returns the names that the library's file may have, in the order in which they are tried.
    pub(super) fn files(self) -> impl Iterator<Item = String> {
        let of_minor = move |minor| format!("{}.{minor}", self.file);
        std::iter::once(self.file.to_owned()).chain((0..=9).map(of_minor))
    }
}

/// Returns the path of a library in the first of `folders` that contains it.
#[must_use]
pub fn find(library: Library, folders: &[PathBuf]) -> Option<PathBuf> {
    let inside = |folder: &PathBuf| {
        library.files().map(|file| folder.join(file)).find(|path| path.is_file())
    };
    folders.iter().find_map(inside)
}

/// Returns the message that a library is missing: where it was looked for, and a remedy.
#[must_use]
pub fn missing(library: Library, folders: &[PathBuf]) -> String {
    let Library { name, file, package } = library;
    let places: Vec<String> = folders.iter().map(|folder| shown(folder)).collect();
    let places = if places.is_empty() { "no folder".to_owned() } else { places.join(", ") };
    format!(
        "{name} is missing: {file} was looked for in {places} and by the system's loader; \
         `pip install {package}`, or name its folder in {VARIABLE}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn folders_named_by_the_user_are_searched_before_python_packages() {
        let place = tempfile::tempdir().unwrap();
        let file = |path: &str| {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let blas = CUBLAS;
        let environment = file("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libcublas.so.13");
        let asked = file("asked/nvidia/cu13/lib/libnvrtc.so.13");
        let loader = file("loader/libcudnn.so.9");
        let named = file("named/cu13/lib/libcublas.so.13");
        let variable = |with: bool| {
            let at = |name: &str| Some(place.path().join(name).into_os_string());
            move |name: &str| match name {
                VARIABLE if with => at("named"),
                "LD_LIBRARY_PATH" => at("loader"),
                "VIRTUAL_ENV" => at("venv"),
                _ => None,
            }
        };
        let python = || vec![place.path().join("asked/nvidia"), place.path().join("gone")];
        let folders = folders_by(&variable(false), python);
        assert_eq!(find(blas, &folders), Some(environment));
        assert_eq!(find(NVRTC, &folders), Some(asked));
        assert_eq!(find(CUDNN, &folders), Some(loader));
        let minor = file("asked/nvidia/cu13/lib/libnvrtc-builtins.so.13.2");
        assert_eq!(find(BUILT_INS, &folders), Some(minor), "of any minor version");
        assert_eq!(find(blas, &folders_by(&variable(true), python)), Some(named));
        assert_eq!(
            find(blas, &folders_by(&|_| None, Vec::new)).filter(|p| p.starts_with(place.path())),
            None
        );
        let message = missing(blas, &folders);
        for part in ["cuBLAS is missing", "libcublas.so.13", "loader", "pip install", VARIABLE] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
