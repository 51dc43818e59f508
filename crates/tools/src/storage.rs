//! `Storage`: tools that read and write files in one folder. The operating system enforces the
//! boundary through a handle of the folder; paths are not compared as text.

use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, OpenOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::writable_folders::WritableFolders;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy, ToolReturn};

/// Default maximum number of bytes that are read at once or that a written file may have.
const DEFAULT_MAX_BYTES: u64 = 1 << 20;
/// Maximum number of entries that are listed of a folder.
const MOST_ENTRIES: usize = 1000;
/// Name prefix of a file that is not completely written.
const UNFINISHED: &str = ".agentflow-unfinished-";

/// A folder for tools that read and write files.
///
/// [`tools`](Self::tools) returns `storage_list`, `storage_read`, `storage_write` and
/// `storage_append`; [`reading_tools`](Self::reading_tools) returns the first two. Paths are
/// relative to the folder, and files are UTF-8 text. The operating system rejects every path that
/// leads out of the folder: with `..`, with a leading `/`, or through a symbolic link, also if the
/// link is created during the call. Links within the folder are followed.
///
/// A write is atomic: the text is written to a temporary file, synced, and renamed. A concurrent
/// reader, or a reader after a crash, sees either the old or the new text. A crash may leave a
/// temporary file whose name starts with `.agentflow-unfinished-`; such files are not listed.
/// Missing folders are created. A cancelled call finishes its write.
///
/// The whole folder may be written, unless [`writable`](Self::writable) restricts that.
///
/// Reading has the effects `read`. Writing has the effects `write` and is idempotent. Appending is
/// not idempotent, so a call that a crash interrupted waits for a person instead of being repeated.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("agentflow-storage-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let storage = tools::Storage::open(&folder)?.max_bytes(64 << 10);
/// let runtime = Runtime::builder().tools(storage.tools()).build();
/// let call = |name: &str, arguments: serde_json::Value| ToolCall::new("1", name, arguments.to_string());
/// runtime.invoke(&call("storage_write", json!({"path": "notes/a.txt", "content": "tea"})), &[]).await?;
/// let read = runtime.invoke(&call("storage_read", json!({"path": "notes/a.txt"})), &[]).await?;
/// assert_eq!(read.text(), "tea");
/// let outside = runtime.invoke(&call("storage_read", json!({"path": "../secret"})), &[]).await?;
/// assert_eq!(outside.text(), "`../secret` leads out of the storage; give a path within it, such as `notes/a.txt`");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "StorageTool")]
pub struct Storage {
    folder: Arc<Dir>,
    /// Folders that may be written. `None` for the whole storage.
    writable: Option<Arc<WritableFolders>>,
    max_bytes: u64,
}

impl Storage {
    /// Opens an existing folder. It is opened once: if it is moved later, the tools keep using it.
    ///
    /// # Errors
    /// The folder does not exist, is not a folder, or cannot be opened.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
        Ok(Self { folder: Arc::new(folder), writable: None, max_bytes: DEFAULT_MAX_BYTES })
    }

    /// Restricts writing to these folders. The whole storage can still be read, with the same
    /// paths. The descriptions of the writing tools list the folders, and so do the errors for
    /// other paths.
    ///
    /// A folder is a path below the storage, such as `src` or `docs/pages`. It is created if it is
    /// missing. It is opened once, without following links, so replacing it later does not redirect
    /// writes. A link inside the folder is followed as long as it stays inside. Appending to a hard
    /// link also changes the file under its other names.
    ///
    /// ```
    /// # use agentflow::tools::Storage;
    /// # fn main() -> std::io::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("agentflow-writable-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let tools = Storage::open(&folder)?.writable(["src", "docs/pages"])?.tools();
    /// # assert_eq!(tools.len(), 4);
    /// # assert!(folder.join("docs/pages").is_dir());
    /// # std::fs::remove_dir_all(&folder)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The list is empty, or one of the folders is not below the storage, is not a folder, is
    /// reached through a link, or cannot be opened.
    pub fn writable<P: AsRef<Path>>(
        mut self,
        folders: impl IntoIterator<Item = P>,
    ) -> io::Result<Self> {
        // An iterator may be empty, so remember if it returned a folder: no folder must not mean
        // "everything".
        let mut writable = WritableFolders::default();
        let mut any = false;
        for folder in folders {
            writable.add(&self.folder, folder.as_ref())?;
            any = true;
        }
        if !any {
            let problem = "no folder is named that may be written; name one, or give the `reading_tools` alone";
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        }
        self.writable = Some(Arc::new(writable));
        Ok(self)
    }

    /// Sets the maximum number of bytes that are read at once and that a written file may have.
    /// Default: 1 MiB. The output limits of the tool and the runtime apply in addition.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Creates the reading and the writing tools.
    pub fn tools(&self) -> Vec<FnTool> {
        let mut tools = self.reading_tools();
        let writes = ToolPolicy::default().effects(Effects::Write);
        let only = self.writable.as_ref();
        let only = only.map_or_else(String::new, |only| {
            format!(" Only below {} may files be written.", only.names())
        });
        let about = "Writes a file of the storage: the text becomes all that is in it. Missing folders are made.";
        let write = self.tool("storage_write", &format!("{about}{only}"), Self::write);
        tools.push(write.policy(writes.clone().idempotent()));
        let about =
            "Adds text at the end of a file of the storage, which is made when it is missing.";
        tools.push(
            self.tool("storage_append", &format!("{about}{only}"), Self::append).policy(writes),
        );
        tools
    }

    /// Creates the reading tools.
    pub fn reading_tools(&self) -> Vec<FnTool> {
        let reads = || ToolPolicy::default().effects(Effects::Read);
        let list = "Lists a folder of the storage: names, kinds and sizes in bytes, in the order of the names.";
        let read =
            "Reads a text file of the storage, or a part of it: from a byte on, so many bytes.";
        vec![
            self.tool("storage_list", list, Self::list).policy(reads()),
            self.tool("storage_read", read, Self::read).policy(reads()),
        ]
    }

    fn tool<A, O>(
        &self,
        name: &str,
        about: &str,
        does: fn(&Self, A) -> Result<O, ToolError>,
    ) -> FnTool
    where
        A: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
        O: ToolReturn + Send + 'static,
    {
        let storage = self.clone();
        FnTool::new(name, about, move |_cx, arguments: A| {
            let storage = storage.clone();
            async move {
                // File system calls block. A blocking task is not cancelled, so a started write is
                // completed.
                let done = tokio::task::spawn_blocking(move || does(&storage, arguments)).await;
                done.unwrap_or_else(|error| {
                    Err(ToolError::new(format!("the storage was not asked: {error}")))
                })
            }
        })
    }

    fn list(&self, Listed { path }: Listed) -> Result<Listing, ToolError> {
        let path = if path.is_empty() { "." } else { &path };
        let entries =
            self.folder.read_dir(within(path)?).map_err(|error| refused(path, &error, "folder"))?;
        let mut all = Vec::new();
        let mut more = false;
        for entry in entries {
            let entry = entry.map_err(|error| refused(path, &error, "folder"))?;
            // Unfinished and deleted files do not count.
            let Some(entry) = FolderEntry::from_dir_entry(&entry) else { continue };
            more = all.len() == MOST_ENTRIES;
            if more {
                break;
            }
            all.push(entry);
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Listing { entries: all, more })
    }

    fn read(&self, ReadPart { path, from, bytes }: ReadPart) -> Result<String, ToolError> {
        let mut options = OpenOptions::new();
        let (mut file, length) =
            file(&self.folder, within(&path)?, &path, options.read(true), |error| {
                refused(&path, error, "file")
            })?;
        let from = from.unwrap_or(0);
        // Never read past the end that the file had when it was opened.
        let wanted = bytes.unwrap_or(length.saturating_sub(from)).min(length.saturating_sub(from));
        if wanted > self.max_bytes {
            let problem = format!(
                "`{path}` has {length} bytes, and {} are read at once; read a part of it with `from` and `bytes`",
                self.max_bytes
            );
            return Err(ToolError::with_status(ToolStatus::OutputTooLarge, problem));
        }
        let mut read = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(|error| refused(&path, &error, "file"))?;
        file.take(wanted).read_to_end(&mut read).map_err(|error| refused(&path, &error, "file"))?;
        String::from_utf8(read).map_err(|error| {
            // The error's position is relative to the part that was read.
            let at = from + error.utf8_error().valid_up_to() as u64;
            ToolError::new(format!(
                "`{path}` is not text of UTF-8 at byte {at}; a part that is read begins and ends between two letters"
            ))
        })
    }

    fn write(&self, FileContent { path, content }: FileContent) -> Result<String, ToolError> {
        self.fits(&path, content.len() as u64)?;
        let (folder, place) = self.to_write(&path)?;
        let name = place.file_name().ok_or_else(|| self.not_written(&path))?.to_owned();
        let problem = |error: io::Error| self.refused_write(&path, &error);
        let parent = parent(folder, place).map_err(problem)?;
        // `rename` would fail with a less helpful error.
        if parent.metadata(&name).is_ok_and(|there| there.is_dir()) {
            return Err(ToolError::new(format!("`{path}` is a folder; name a file in it")));
        }
        // A random name, so that concurrent writers of the same file do not share it.
        let unfinished = format!("{UNFINISHED}{:016x}", fastrand::u64(..));
        let written = || {
            let mut file =
                parent.open_with(&unfinished, OpenOptions::new().write(true).create_new(true))?;
            file.write_all(content.as_bytes())?;
            file.sync_all()?;
            parent.rename(&unfinished, &parent, &name)?;
            // Sync the folder too, so that the rename survives a crash. Not every system can do
            // that, so errors are ignored.
            parent.try_clone().map(|folder| folder.into_std_file().sync_all()).map(drop)
        };
        let done = written();
        // Do not leave the temporary file behind. Its removal may fail too, but the first error
        // matters.
        if done.is_err() {
            let _ = parent.remove_file(&unfinished);
        }
        done.map_err(problem)?;
        Ok(format!("{} bytes written to `{path}`", content.len()))
    }

    fn append(&self, FileContent { path, content }: FileContent) -> Result<String, ToolError> {
        let (folder, place) = self.to_write(&path)?;
        // Rejects paths such as `..` and `.` before a folder is created for them.
        place.file_name().ok_or_else(|| self.not_written(&path))?;
        parent(folder, place).map_err(|error| self.refused_write(&path, &error))?;
        let mut options = OpenOptions::new();
        let refused = |error: &io::Error| self.refused_write(&path, error);
        let (mut file, length) =
            file(folder, place, &path, options.append(true).create(true), refused)?;
        self.fits(&path, length + content.len() as u64)?;
        let done = file.write_all(content.as_bytes()).and_then(|()| file.sync_all());
        done.map_err(|error| refused(&error))?;
        Ok(format!(
            "{} bytes added to `{path}`, which has {} now",
            content.len(),
            length + content.len() as u64
        ))
    }

    /// Returns the folder handle for writing a path, and the rest of the path.
    fn to_write<'p>(&self, path: &'p str) -> Result<(&Dir, &'p Path), ToolError> {
        let place = within(path)?;
        match &self.writable {
            None => Ok((&self.folder, place)),
            Some(only) => {
                // A leading `.` is no folder name.
                let below = only.below(place.strip_prefix(".").unwrap_or(place));
                below.ok_or_else(|| self.not_written(path))
            }
        }
    }

    /// Returns the error for a path that may not be written.
    fn not_written(&self, path: &str) -> ToolError {
        match &self.writable {
            None => outside(path),
            Some(only) => ToolError::new(format!(
                "`{path}` may not be written; files may be written below {} alone",
                only.names()
            )),
        }
    }

    fn refused_write(&self, path: &str, error: &io::Error) -> ToolError {
        match error.kind() {
            ErrorKind::PermissionDenied if is_escape(error) => self.not_written(path),
            _ => refused(path, error, "file"),
        }
    }

    fn fits(&self, path: &str, bytes: u64) -> Result<(), ToolError> {
        match bytes > self.max_bytes {
            true => Err(ToolError::new(format!(
                "`{path}` would have {bytes} bytes, and a file of the storage has at most {}; write less",
                self.max_bytes
            ))),
            false => Ok(()),
        }
    }
}

/// Prints only the size limit.
impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Listed {
    /// The path of a folder; empty for the storage itself.
    #[serde(default)]
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct ReadPart {
    /// The path of a file, such as `notes/a.txt`.
    path: String,
    /// The first byte, from 0; default 0.
    from: Option<u64>,
    /// How many bytes; default all.
    bytes: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct FileContent {
    /// The path of a file, such as `notes/a.txt`.
    path: String,
    /// The text.
    content: String,
}

#[derive(Serialize, JsonSchema)]
struct Listing {
    entries: Vec<FolderEntry>,
    /// Whether there are more, which are not listed.
    more: bool,
}

#[derive(Serialize, JsonSchema)]
struct FolderEntry {
    name: String,
    /// `file`, `folder`, `link` or `other`.
    kind: &'static str,
    bytes: u64,
}

impl FolderEntry {
    /// Returns the entry of a file. Returns `None` for temporary files and for files that were
    /// deleted meanwhile.
    fn from_dir_entry(entry: &DirEntry) -> Option<Self> {
        let name = entry.file_name().to_string_lossy().into_owned();
        let about = entry.metadata().ok()?;
        let kind = match about.file_type() {
            kind if kind.is_file() => "file",
            kind if kind.is_dir() => "folder",
            kind if kind.is_symlink() => "link",
            _ => "other",
        };
        (!name.starts_with(UNFINISHED)).then_some(Self { name, kind, bytes: about.len() })
    }
}

/// Opens the parent folder of a file. Creates it if it is missing.
fn parent(folder: &Dir, place: &Path) -> io::Result<Dir> {
    match place.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        None => folder.try_clone(),
        Some(parent) => {
            folder.create_dir_all(parent)?;
            folder.open_dir(parent)
        }
    }
}

/// Opens a regular file and returns its length. Other kinds, such as pipes, are rejected because
/// reading them may block.
fn file(
    folder: &Dir,
    place: &Path,
    path: &str,
    options: &mut OpenOptions,
    refused: impl Fn(&io::Error) -> ToolError,
) -> Result<(File, u64), ToolError> {
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = folder.open_with(place, options).map_err(|error| refused(&error))?;
    let about = file.metadata().map_err(|error| refused(&error))?;
    match about.is_file() {
        true => Ok((file, about.len())),
        false => Err(ToolError::new(format!(
            "`{path}` is not a file; `storage_list` shows what is there"
        ))),
    }
}

/// Checks a path without resolving it. The operating system decides if it leads out of the folder.
fn within(path: &str) -> Result<&Path, ToolError> {
    let place = Path::new(path);
    let is_name = |name: &std::ffi::OsStr| !name.to_string_lossy().starts_with(UNFINISHED);
    match place.components().all(|part| !matches!(part, Component::Normal(name) if !is_name(name)))
    {
        true if !path.is_empty() && !path.contains('\0') => Ok(place),
        true => Err(ToolError::new(
            "a path has at least one letter and no zero byte; give one such as `notes/a.txt`",
        )),
        false => Err(ToolError::new(format!(
            "`{path}` is a name of the storage's own; give another one"
        ))),
    }
}

fn outside(path: &str) -> ToolError {
    ToolError::new(format!(
        "`{path}` leads out of the storage; give a path within it, such as `notes/a.txt`"
    ))
}

/// Converts an error of the operating system to a message for the model.
fn refused(path: &str, error: &io::Error, what: &str) -> ToolError {
    match error.kind() {
        ErrorKind::NotFound => ToolError::new(format!(
            "the storage has no {what} `{path}`; `storage_list` shows what is there"
        )),
        ErrorKind::PermissionDenied if is_escape(error) => outside(path),
        ErrorKind::NotADirectory => {
            ToolError::new(format!("a part of `{path}` is a file and not a folder"))
        }
        ErrorKind::IsADirectory => {
            ToolError::new(format!("`{path}` is a folder; name a file in it"))
        }
        _ => ToolError::new(format!("the {what} `{path}` cannot be used: {error}")),
    }
}

/// Returns `true` if the error rejects a path that leads out of the folder. Such an error has no OS
/// error number, or is `EXDEV`.
fn is_escape(error: &io::Error) -> bool {
    error.raw_os_error().is_none() || error.kind() == ErrorKind::CrossesDevices
}
