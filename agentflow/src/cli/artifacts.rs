//! `agentwf runs artifacts`: lists the artifacts of a run, and writes one to a file.

use std::io::Write;
use std::path::Path;

use super::print::{BOLD, DIM, Stop, json_line, line, note};
use crate::artifact::ArtifactRef;
use crate::event::RunId;
use crate::runtime::Runtime;
use crate::text::OneLine;

pub(super) async fn list(runtime: &Runtime, run: &RunId, json: bool) -> Result<(), Stop> {
    let artifacts = runtime.artifacts(run).await?;
    if json {
        return json_line(&artifacts);
    }
    for ArtifactRef { name, version, media_type, size, .. } in &artifacts {
        line(format_args!(
            "{BOLD}{}{BOLD:#}  version {version}  {size} bytes{DIM}  {}{DIM:#}",
            OneLine(name),
            OneLine(media_type)
        ))?;
    }
    if artifacts.is_empty() {
        note("no artifacts");
    }
    Ok(())
}

pub(super) async fn write(
    runtime: &Runtime,
    run: &RunId,
    (name, version): (&str, Option<u32>),
    out: &Path,
) -> Result<(), Stop> {
    let Some(artifact) = runtime.artifact(run, name, version).await? else {
        let of = version.map_or_else(String::new, |version| format!(" of version {version}"));
        return Err(Stop::failed(
            "not_found",
            format!("the run `{run}` has no artifact `{name}`{of}; list them with `runs artifacts {run}`"),
        ));
    };
    if out == Path::new("-") {
        return std::io::stdout().write_all(&artifact.bytes).map_err(|_| Stop::Closed);
    }
    let file = std::fs::File::options().write(true).create_new(true).open(out);
    file.and_then(|mut file| file.write_all(&artifact.bytes)).map_err(|error| {
        let problem =
            format!("`{}` cannot be written: {error}; give a new file in a folder that is there", out.display());
        Stop::failed("io", problem)
    })?;
    note(format_args!("{} is in `{}`", OneLine(&artifact.reference), out.display()));
    Ok(())
}
