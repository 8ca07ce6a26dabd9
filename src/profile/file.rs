//! Profiles as files.

use super::Profile;
use std::path::Path;

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the profile {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is no profile.
    #[error("{path} is not a profile: {error}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong and where.
        error: toml::de::Error,
    },
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// If the file cannot be read, or is no profile.
    pub fn open(path: &Path) -> Result<Profile, ProfileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError::Unreadable { path: name.clone(), error })?;
        toml::from_str(&text).map_err(|error| ProfileError::Malformed { path: name, error })
    }
}
