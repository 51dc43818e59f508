//! Continues a run after a request of an operator.

use agentflow_core::RunId;
use agentflow_core::runtime::CallerRuntime;
use agentflow_core::store::RunStatus;

use crate::api_error::ApiResult;

/// Continues a run in this process after an operator's request, if no process executes it.
///
/// # Errors
/// If the run cannot be read. A run that this program cannot continue stays `queued` for a process
/// that can.
pub(crate) async fn continue_run(runtime: &CallerRuntime, run: &RunId) -> ApiResult<()> {
    let found = runtime.run(run);
    if found.record().await?.status != RunStatus::Queued {
        return Ok(());
    }
    if let Err(error) = found.resume().await {
        tracing::info!(%run, %error, "a run stays queued, since this process cannot continue it");
    }
    Ok(())
}
