//! The folder on the shared storage for all working files of a calibration of a cluster.

use crate::commands::Failure;
use crate::input::{path_as_json, shown};
use crate::probe::wall_clock;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Name of the folder.
const NAME: &str = "forebay-cluster-files";
/// Name of the file in it that says whose it is.
const OWNER: &str = "owner.json";

/// Whose the folder is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Owner {
    /// Output directory of the calibration.
    #[serde(with = "path_as_json")]
    output: PathBuf,
    /// Node of rank 0.
    node: String,
    /// When the calibration began [s since 1970].
    since: f64,
}

/// The folder of a calibration, which is removed with everything in it at the end.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder in `directory`, for the calibration into `output`. A folder that an earlier run into the same output has left is
    /// removed, since that run no longer lives: it would hold the output's lock. One of another calibration is removed only if
    /// `remove_leftovers`. Returns the folder and a note for the user.
    pub(super) fn make(
        directory: &Path,
        output: &Path,
        node: &str,
        remove_leftovers: bool,
    ) -> Result<(Folder, Option<String>), Failure> {
        let path = directory.join(NAME);
        let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let output = absolute(output);
        let owner = Owner { output: output.clone(), node: node.to_owned(), since: wall_clock() };
        let mut note = None;
        if fs::symlink_metadata(&path).is_ok() {
            refuse_unless_ours(&path, &output, remove_leftovers)?;
            fs::remove_dir_all(&path).map_err(|error| Failure::unwritable(&path, &error))?;
            note = Some(format!("removed {}, left by a run that was killed", shown(&path)));
        }
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            let why = crate::input::reason(&error);
            let what = format!("cannot make {}: {why}; name another --directory", shown(&path));
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
                    Failure::Input(what)
                }
                _ => Failure::Machine(what),
            }
        })?;
        let folder = Folder(path);
        let file = folder.0.join(OWNER);
        let text = serde_json::to_string(&owner).unwrap_or_default();
        fs::write(&file, text).map_err(|error| Failure::unwritable(&file, &error))?;
        Ok((folder, note))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now, the next run removes.
        fs::remove_dir_all(&self.0).ok();
    }
}

fn refuse_unless_ours(path: &Path, output: &Path, remove: bool) -> Result<(), Failure> {
    let place = shown(path);
    let owned = fs::symlink_metadata(path).map_err(|error| Failure::unreadable(path, &error))?;
    if !owned.is_dir() || owned.uid() != rustix::process::geteuid().as_raw() {
        let what = "is no folder of yours; name another --directory";
        return Err(Failure::Input(format!("{place} {what}")));
    }
    let text = fs::read_to_string(path.join(OWNER)).unwrap_or_default();
    let Ok(owner) = serde_json::from_str::<Owner>(&text) else {
        // A run may have been killed before it had written whose the folder is.
        let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        return match is_empty || remove {
            true => Ok(()),
            false => Err(Failure::Input(format!(
                "{place} is there, and nothing says whose it is; if no calibration uses it, add --remove-leftovers"
            ))),
        };
    };
    if owner.output == output || remove {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "{place} has working files of a calibration into {}, begun on {}; if it no longer runs, add --remove-leftovers, otherwise name another --directory",
        shown(&owner.output),
        owner.node
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_removed_if_they_are_ours_or_the_user_says_so() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| place.path().join(name));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&other).unwrap();
        let make = |output: &Path, remove| Folder::make(place.path(), output, "n1", remove);
        let (folder, note) = make(&one, false).unwrap();
        assert_eq!(note, None);
        fs::create_dir(folder.path().join("rank-0")).unwrap();
        std::mem::forget(folder);
        let refused = make(&other, false).unwrap_err().to_string();
        assert!(
            refused.contains("begun on n1") && refused.contains("--remove-leftovers"),
            "{refused}"
        );
        let (folder, note) = make(&one, false).unwrap();
        assert!(note.unwrap().contains("left by a run that was killed"));
        std::mem::forget(folder);
        let (folder, _) = make(&other, true).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("mine"), "").unwrap();
        assert!(make(&one, false).unwrap_err().to_string().contains("nothing says whose"));
        fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink(&one, &path).unwrap();
        assert!(make(&one, true).unwrap_err().to_string().contains("no folder of yours"));
    }
}
