//! Where rank 0 listens, and the secret of the run, in a file that only the user can read.
//! The file is in a folder of its own (mode 0700) below the output directory. Rank 0 makes the folder under another name and then renames
//! it, so that no rank reads a file that is half written. File servers may show old directories for up to a minute (NFS keeps attributes
//! for 30 to 60 s), so other ranks look again and again, by the file's full path.

use crate::secret::{Run, Secret};
use rustix::fs::{CWD, Mode, OFlags, open, openat};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Name of the folder.
const FOLDER: &str = "rendezvous";
/// Name of the file in it.
const FILE: &str = "key.json";
/// Largest size of the file [B].
const MOST: u64 = 1 << 16;

/// Contents of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendezvous {
    /// Number of the run.
    pub run: Run,
    /// Secret of the run.
    pub secret: Secret,
    /// Where rank 0 listens.
    pub address: SocketAddr,
    /// Job of the launcher, if it says one.
    pub job: Option<String>,
    /// Node of rank 0.
    pub node: String,
}

/// The file of a run, which is removed at the end of the run.
#[derive(Debug)]
pub struct Published {
    folder: PathBuf,
}

impl Rendezvous {
    /// Writes the file below the directory `output`. A file that an earlier run has left there is replaced: the caller makes sure that
    /// no other run uses the directory.
    ///
    /// # Errors
    /// If the folder or the file cannot be made.
    pub fn publish(&self, output: &Path) -> io::Result<Published> {
        let folder = output.join(FOLDER);
        let new = output.join(format!(".{FOLDER}-{}", std::process::id()));
        remove(&new)?;
        DirBuilder::new().mode(0o700).create(&new)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, new.join(FILE), flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        remove(&folder)?;
        fs::rename(&new, &folder)?;
        Ok(Published { folder })
    }

    /// Reads the file below `output`.
    ///
    /// # Errors
    /// If there is no file yet (`NotFound`), or it is not one that this user wrote for a run.
    pub fn read(output: &Path) -> io::Result<Rendezvous> {
        let path = output.join(FOLDER).join(FILE);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(&path, flags, Mode::empty())?);
        let at = file.metadata()?;
        let refuse = |what: &str| Err(io::Error::new(ErrorKind::PermissionDenied, what));
        if !at.is_file() {
            return refuse("it is no regular file");
        }
        if at.uid() != rustix::process::geteuid().as_raw() {
            return refuse("it belongs to another user");
        }
        if at.mode() & 0o077 != 0 {
            return refuse("others may read it, so that it is no secret");
        }
        let mut text = String::new();
        file.take(MOST).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        remove(&self.folder).ok();
    }
}

/// Removes a folder with such a file, if it is there and has nothing else.
fn remove(folder: &Path) -> io::Result<()> {
    let missing = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    };
    fs::remove_file(folder.join(FILE)).or_else(missing)?;
    fs::remove_dir(folder).or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn rendezvous() -> Rendezvous {
        Rendezvous {
            run: Run::new().unwrap(),
            secret: Secret::new().unwrap(),
            address: "10.0.0.1:4000".parse().unwrap(),
            job: Some("7.0".into()),
            node: "n1".into(),
        }
    }

    #[test]
    fn ranks_read_what_rank_0_has_published_until_it_ends() {
        let output = tempfile::tempdir().unwrap();
        assert_eq!(Rendezvous::read(output.path()).unwrap_err().kind(), ErrorKind::NotFound);
        let (first, second) = (rendezvous(), rendezvous());
        std::mem::forget(first.publish(output.path()).unwrap());
        assert_eq!(Rendezvous::read(output.path()).unwrap(), first);
        // The first run was killed: its file is replaced.
        let published = second.publish(output.path()).unwrap();
        assert_eq!(Rendezvous::read(output.path()).unwrap(), second);
        let folder = output.path().join(FOLDER);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let file = fs::metadata(folder.join(FILE)).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        drop(published);
        assert_eq!(fs::read_dir(output.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_of_others_links_and_garbage_are_refused() {
        let output = tempfile::tempdir().unwrap();
        let folder = output.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let file = folder.join(FILE);
        fs::write(&file, "{}").unwrap();
        let refused = || Rendezvous::read(output.path()).unwrap_err();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refused().to_string().contains("others may read it"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(refused().kind(), ErrorKind::InvalidData);
        fs::rename(&file, folder.join("other")).unwrap();
        std::os::unix::fs::symlink("other", &file).unwrap();
        assert!(Rendezvous::read(output.path()).is_err());
        // Something else is in the folder: it is not removed.
        assert!(rendezvous().publish(output.path()).is_err());
        assert!(folder.join("other").exists());
    }
}
