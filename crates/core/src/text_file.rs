//! Reads text files whose path comes from a user: only regular files of bounded size, in bounded time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a configuration file, in bytes.
pub const MOST_BYTES: usize = 4 << 20;

/// Reads a regular file.
///
/// # Errors
/// If it cannot be opened, is a folder, a device or a pipe, has more than `most` bytes, even if it
/// grows while it is read, or is not UTF-8.
pub fn read(path: &Path, most: usize) -> io::Result<String> {
    // Opening a device may have an effect.
    is_regular(&fs::metadata(path)?, most)?;
    let file = open(path)?;
    is_regular(&file.metadata()?, most)?;
    // One byte more than the limit, to detect a file that grew after the check.
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

/// Opens a file for reading without blocking. The path may have become a pipe since the check, or
/// be a file such as `/proc/kmsg`, whose reads wait for new data.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options.open(path)
}

/// Resolves the links in the path of a folder's entry.
///
/// # Errors
/// If it is a link to a target outside of the folder, or to a missing target.
#[cfg(feature = "documents")]
pub fn within(folder: &Path, entry: &Path) -> io::Result<std::path::PathBuf> {
    let file = entry.canonicalize()?;
    match file.starts_with(folder.canonicalize()?) {
        true => Ok(file),
        false => Err(io::Error::other(
            "it is a link that leads out of the folder; copy the file into the folder",
        )),
    }
}
