//! Reads text files whose path comes from a user: only regular files of bounded size, in bounded time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a configuration file, in bytes.
#[cfg_attr(not(any(feature = "cli", feature = "mcp")), allow(dead_code, reason = "documents have their own limit"))]
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// Reads a regular file.
///
/// # Errors
/// When it cannot be opened, is a folder, a device or a pipe, has more than `most` bytes, also while it is read, or is not
/// UTF-8.
pub(crate) fn read(path: &Path, most: usize) -> io::Result<String> {
    // Opening a device may have an effect.
    is_regular(&fs::metadata(path)?, most)?;
    let file = open(path)?;
    is_regular(&file.metadata()?, most)?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn is_regular(file: &fs::Metadata, most: usize) -> io::Result<()> {
    match file.len() {
        _ if !file.is_file() => Err(io::Error::other("it is not a regular file")),
        size if size > most as u64 => {
            Err(io::Error::other(format!("it has {size} bytes, and at most {most} are read")))
        }
        _ => Ok(()),
    }
}

/// Opens a file for reading without blocking, also if the path has become a pipe since the check, or is a file such as
/// `/proc/kmsg`, whose reads wait for new bytes.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    options.open(path)
}

/// Resolves the links in a path of a folder's entry.
///
/// # Errors
/// When it is a link that leads out of the folder, or to nothing.
#[cfg(feature = "documents")]
pub(crate) fn within(folder: &Path, entry: &Path) -> io::Result<std::path::PathBuf> {
    let file = entry.canonicalize()?;
    match file.starts_with(folder.canonicalize()?) {
        true => Ok(file),
        false => Err(io::Error::other("it is a link that leads out of the folder; copy the file into the folder")),
    }
}
