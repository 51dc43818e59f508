//! `Storage`: tools that read and write the files of one folder, and nothing outside of it. Where a path leads is decided by
//! the operating system, through a handle of the folder; no path is compared as a text.

use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, OpenOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::writable_folders::WritableFolders;
use crate::message::ToolStatus;
use crate::tool::{Effects, FnTool, ToolError, ToolPolicy, ToolReturn};

/// The most bytes of a file that is read at once or written, unless the host says otherwise.
const DEFAULT_MAX_BYTES: u64 = 1 << 20;
/// The most entries of a folder that are listed.
const MOST_ENTRIES: usize = 1000;
/// How the name of a file begins that is not whole yet.
const UNFINISHED: &str = ".agentflow-unfinished-";

/// A folder for tools that keep files.
///
/// [`tools`](Self::tools) gives `storage_list`, `storage_read`, `storage_write` and `storage_append`;
/// [`reading_tools`](Self::reading_tools) the first two. Paths are relative to the folder. One that leads out of it is refused by
/// the operating system, whether by `..`, by a symbolic link or by one that is put there meanwhile; so is one that begins with
/// `/`. Links within the folder are followed. Files are texts of UTF-8.
///
/// A file is written whole or not at all: under another name first, synced, and then renamed. Who reads meanwhile, or after a
/// crash, sees the old text or the new one; a crash may leave a file beside it whose name begins with
/// `.agentflow-unfinished-`, which is not listed. Missing folders are made. A call that is cancelled finishes what it is writing.
///
/// All of the folder may be written, unless [`writable`](Self::writable) names what may be.
///
/// Reading has the effects `read`. Writing has the effects `write` and is idempotent; appending is not, so that a call that a
/// crash interrupted waits for a person instead of being made twice.
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
    /// `None`: all of it.
    writable: Option<Arc<WritableFolders>>,
    max_bytes: u64,
}

impl Storage {
    /// A folder that is there already. It is opened once: when it is moved later, the tools stay with it.
    ///
    /// # Errors
    /// When it is not there, is not a folder, or may not be opened.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
        Ok(Self { folder: Arc::new(folder), writable: None, max_bytes: DEFAULT_MAX_BYTES })
    }

    /// Files may be written below these folders alone; all of the storage may still be read, by the same paths. The tools that
    /// write say in their descriptions which folders these are, and so does the refusal of any other path.
    ///
    /// A folder is a path below that of the storage, such as `src` or `docs/pages`, and is made when it is missing. It is opened
    /// once, without following a link: one that is put in its place later leads no writer elsewhere. A link within it is
    /// followed as long as it stays within it. What a hard link shares with a file elsewhere is changed by appending.
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
    /// Without any folder, and for one that is not below the storage, is not a folder, has a link on its way, or may not be
    /// opened.
    pub fn writable<P: AsRef<Path>>(mut self, folders: impl IntoIterator<Item = P>) -> io::Result<Self> {
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

    /// The most bytes that are read at once, and that a file may have when it is written; default 1 MiB. What a model sees of
    /// it is bounded by the tool's and the runtime's limits of outputs beside that.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The tools that read and those that write.
    pub fn tools(&self) -> Vec<FnTool> {
        let mut tools = self.reading_tools();
        let writes = ToolPolicy::default().effects(Effects::Write);
        let only = self.writable.as_ref();
        let only = only.map_or_else(String::new, |only| format!(" Only below {} may files be written.", only.names()));
        let about = "Writes a file of the storage: the text becomes all that is in it. Missing folders are made.";
        let write = self.tool("storage_write", &format!("{about}{only}"), Self::write);
        tools.push(write.policy(writes.clone().idempotent()));
        let about = "Adds text at the end of a file of the storage, which is made when it is missing.";
        tools.push(self.tool("storage_append", &format!("{about}{only}"), Self::append).policy(writes));
        tools
    }

    /// The tools that read.
    pub fn reading_tools(&self) -> Vec<FnTool> {
        let reads = || ToolPolicy::default().effects(Effects::Read);
        let list = "Lists a folder of the storage: names, kinds and sizes in bytes, in the order of the names.";
        let read = "Reads a text file of the storage, or a part of it: from a byte on, so many bytes.";
        vec![
            self.tool("storage_list", list, Self::list).policy(reads()),
            self.tool("storage_read", read, Self::read).policy(reads()),
        ]
    }

    fn tool<A, O>(&self, name: &str, about: &str, does: fn(&Self, A) -> Result<O, ToolError>) -> FnTool
    where
        A: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
        O: ToolReturn + Send + 'static,
    {
        let storage = self.clone();
        FnTool::new(name, about, move |_cx, arguments: A| {
            let storage = storage.clone();
            async move {
                let done = tokio::task::spawn_blocking(move || does(&storage, arguments)).await;
                done.unwrap_or_else(|error| Err(ToolError::new(format!("the storage was not asked: {error}"))))
            }
        })
    }

    fn list(&self, Listed { path }: Listed) -> Result<Listing, ToolError> {
        let path = if path.is_empty() { "." } else { &path };
        let entries = self.folder.read_dir(within(path)?).map_err(|error| refused(path, &error, "folder"))?;
        let mut all = Vec::new();
        let mut more = false;
        for entry in entries {
            let entry = entry.map_err(|error| refused(path, &error, "folder"))?;
            let Some(entry) = Entry::of(&entry) else { continue };
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
            file(&self.folder, within(&path)?, &path, options.read(true), |error| refused(&path, error, "file"))?;
        let from = from.unwrap_or(0);
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
            let at = from + error.utf8_error().valid_up_to() as u64;
            ToolError::new(format!(
                "`{path}` is not text of UTF-8 at byte {at}; a part that is read begins and ends between two letters"
            ))
        })
    }

    fn write(&self, Written { path, content }: Written) -> Result<String, ToolError> {
        self.fits(&path, content.len() as u64)?;
        let (folder, place) = self.to_write(&path)?;
        let name = place.file_name().ok_or_else(|| self.not_written(&path))?.to_owned();
        let problem = |error: io::Error| self.refused_write(&path, &error);
        let parent = parent(folder, place).map_err(problem)?;
        if parent.metadata(&name).is_ok_and(|there| there.is_dir()) {
            return Err(ToolError::new(format!("`{path}` is a folder; name a file in it")));
        }
        let unfinished = format!("{UNFINISHED}{:016x}", fastrand::u64(..));
        let written = || {
            let mut file = parent.open_with(&unfinished, OpenOptions::new().write(true).create_new(true))?;
            file.write_all(content.as_bytes())?;
            file.sync_all()?;
            parent.rename(&unfinished, &parent, &name)?;
            // The name is in the folder, which is synced where the system has a way to.
            parent.try_clone().map(|folder| folder.into_std_file().sync_all()).map(drop)
        };
        let done = written();
        if done.is_err() {
            let _ = parent.remove_file(&unfinished);
        }
        done.map_err(problem)?;
        Ok(format!("{} bytes written to `{path}`", content.len()))
    }

    fn append(&self, Written { path, content }: Written) -> Result<String, ToolError> {
        let (folder, place) = self.to_write(&path)?;
        place.file_name().ok_or_else(|| self.not_written(&path))?;
        parent(folder, place).map_err(|error| self.refused_write(&path, &error))?;
        let mut options = OpenOptions::new();
        let refused = |error: &io::Error| self.refused_write(&path, error);
        let (mut file, length) = file(folder, place, &path, options.append(true).create(true), refused)?;
        self.fits(&path, length + content.len() as u64)?;
        let done = file.write_all(content.as_bytes()).and_then(|()| file.sync_all());
        done.map_err(|error| refused(&error))?;
        Ok(format!("{} bytes added to `{path}`, which has {} now", content.len(), length + content.len() as u64))
    }

    /// The folder in which a path is written, and the rest of the path.
    fn to_write<'p>(&self, path: &'p str) -> Result<(&Dir, &'p Path), ToolError> {
        let place = within(path)?;
        match &self.writable {
            None => Ok((&self.folder, place)),
            Some(only) => {
                let below = only.below(place.strip_prefix(".").unwrap_or(place));
                below.ok_or_else(|| self.not_written(path))
            }
        }
    }

    /// The refusal of a path that leads out of what may be written.
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

/// Shows the limit alone.
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
struct Written {
    /// The path of a file, such as `notes/a.txt`.
    path: String,
    /// The text.
    content: String,
}

#[derive(Serialize, JsonSchema)]
struct Listing {
    entries: Vec<Entry>,
    /// Whether there are more, which are not listed.
    more: bool,
}

#[derive(Serialize, JsonSchema)]
struct Entry {
    name: String,
    /// `file`, `folder`, `link` or `other`.
    kind: &'static str,
    bytes: u64,
}

impl Entry {
    /// `None` of a file that is not whole, and of what has gone meanwhile.
    fn of(entry: &DirEntry) -> Option<Self> {
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

/// The folder of a file, made when it is missing.
fn parent(folder: &Dir, place: &Path) -> io::Result<Dir> {
    match place.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        None => folder.try_clone(),
        Some(parent) => {
            folder.create_dir_all(parent)?;
            folder.open_dir(parent)
        }
    }
}

/// A regular file and its length: what else a path may lead to, such as a pipe, may make its reader wait.
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
        false => Err(ToolError::new(format!("`{path}` is not a file; `storage_list` shows what is there"))),
    }
}

/// A path as the operating system is given it, which decides whether it leads out.
fn within(path: &str) -> Result<&Path, ToolError> {
    let place = Path::new(path);
    let is_name = |name: &std::ffi::OsStr| !name.to_string_lossy().starts_with(UNFINISHED);
    match place.components().all(|part| !matches!(part, Component::Normal(name) if !is_name(name))) {
        true if !path.is_empty() && !path.contains('\0') => Ok(place),
        true => Err(ToolError::new("a path has at least one letter and no zero byte; give one such as `notes/a.txt`")),
        false => Err(ToolError::new(format!("`{path}` is a name of the storage's own; give another one"))),
    }
}

fn outside(path: &str) -> ToolError {
    ToolError::new(format!("`{path}` leads out of the storage; give a path within it, such as `notes/a.txt`"))
}

/// Why the operating system did not do it, in words.
fn refused(path: &str, error: &io::Error, what: &str) -> ToolError {
    match error.kind() {
        ErrorKind::NotFound => {
            ToolError::new(format!("the storage has no {what} `{path}`; `storage_list` shows what is there"))
        }
        ErrorKind::PermissionDenied if is_escape(error) => outside(path),
        ErrorKind::NotADirectory => ToolError::new(format!("a part of `{path}` is a file and not a folder")),
        ErrorKind::IsADirectory => ToolError::new(format!("`{path}` is a folder; name a file in it")),
        _ => ToolError::new(format!("the {what} `{path}` cannot be used: {error}")),
    }
}

/// Whether it is the refusal of a path that leads out, which has no number of the operating system, or its own one (`EXDEV`).
fn is_escape(error: &io::Error) -> bool {
    error.raw_os_error().is_none() || error.kind() == ErrorKind::CrossesDevices
}
