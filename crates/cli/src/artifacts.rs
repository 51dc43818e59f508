//! `agentwf runs artifacts` and `agentwf sessions artifacts`: lists the artifacts of a run or a
//! session, or writes one to a file.

use std::io::Write;
use std::path::Path;

use agentflow_schema::text::OneLine;

use super::args::ArtifactArgs;
use super::print::{BOLD, DIM, Stop, line, note, print_json};
use agentflow_core::artifact::ArtifactRef;
use agentflow_core::event::{RunId, SessionArtifact};
use agentflow_core::runtime::Runtime;

/// Owner of the artifacts.
pub(super) enum ArtifactOwner {
    ByRun(RunId),
    InSession(String),
}

/// Lists the artifacts, or writes one.
pub(super) async fn show(
    runtime: &Runtime,
    saved: &ArtifactOwner,
    which: ArtifactArgs,
) -> Result<(), Stop> {
    match which {
        ArtifactArgs { name: Some(name), number, out: Some(out), .. } => {
            write(runtime, saved, (&name, number), &out).await
        }
        ArtifactArgs { json, .. } => list(runtime, saved, json).await,
    }
}

async fn list(runtime: &Runtime, saved: &ArtifactOwner, json: bool) -> Result<(), Stop> {
    let artifacts: Vec<(Option<RunId>, ArtifactRef)> = match saved {
        ArtifactOwner::ByRun(run) => {
            let artifacts = runtime.run(run).artifacts().await?;
            if json {
                return print_json(&artifacts);
            }
            artifacts.into_iter().map(|artifact| (None, artifact)).collect()
        }
        ArtifactOwner::InSession(session) => {
            let artifacts = runtime.sessions().artifacts(session).await?;
            if json {
                return print_json(&artifacts);
            }
            artifacts
                .into_iter()
                .map(|SessionArtifact { run, artifact, .. }| (Some(run), artifact))
                .collect()
        }
    };
    for (run, ArtifactRef { name, version, media_type, size, .. }) in &artifacts {
        let of =
            run.as_ref().map_or_else(String::new, |run| format!("  of the run {}", OneLine(run)));
        line(format_args!(
            "{BOLD}{}{BOLD:#}  version {version}  {size} bytes{DIM}  {}{of}{DIM:#}",
            OneLine(name),
            OneLine(media_type)
        ))?;
    }
    if artifacts.is_empty() {
        note("no artifacts");
    }
    Ok(())
}

async fn write(
    runtime: &Runtime,
    saved: &ArtifactOwner,
    (name, version): (&str, Option<u32>),
    out: &Path,
) -> Result<(), Stop> {
    let (found, of, command, id) = match saved {
        ArtifactOwner::ByRun(run) => (
            runtime.run(run).artifact(name, version).await?,
            format!("run `{run}`"),
            "runs",
            run.to_string(),
        ),
        ArtifactOwner::InSession(id) => {
            let found = runtime.sessions().artifact(id, name, version).await?;
            (found, format!("session `{id}`"), "sessions", id.clone())
        }
    };
    let Some(artifact) = found else {
        let version = version.map_or_else(String::new, |version| format!(" of version {version}"));
        return Err(Stop::failed(
            "not_found",
            format!(
                "the {of} has no artifact `{name}`{version}; list them with `{command} artifacts {id}`"
            ),
        ));
    };
    if out == Path::new("-") {
        return std::io::stdout().write_all(&artifact.bytes).map_err(|_| Stop::Closed);
    }
    // `create_new` never overwrites an existing file.
    let file = std::fs::File::options().write(true).create_new(true).open(out);
    file.and_then(|mut file| file.write_all(&artifact.bytes)).map_err(|error| {
        let problem = format!(
            "`{}` cannot be written: {error}; give a new file in a folder that is there",
            out.display()
        );
        Stop::failed("io", problem)
    })?;
    note(format_args!("{} is in `{}`", OneLine(&artifact.reference), out.display()));
    Ok(())
}
