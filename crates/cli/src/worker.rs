//! `agentwf worker`: executes queued and abandoned runs of a store until it is stopped.

use super::args::WorkerArgs;
use super::print::{Stop, line, note};
use super::stop_signal::{Signal, StopSignals};
use super::workflows::store_argument;
use super::{ctrl_c, runs, validate};
use agentflow_core::runtime::{Drained, Runtime};

pub(super) async fn worker(host: &Runtime, args: WorkerArgs) -> Result<(), Stop> {
    let with_documents = validate::with(host, &args.documents)?;
    with_documents.note_mistakes();
    let named_store = store_argument(args.store.as_ref());
    let runtime = match args.store {
        None if with_documents.host.store().is_none() => {
            let problem = "a worker takes runs from a store; name one with --store";
            return Err(Stop::failed("worker", problem));
        }
        Some(address) if address.is_memory() => {
            let problem = "no other process can queue runs in `memory:`; name a store that \
                           processes share with --store";
            return Err(Stop::failed("worker", problem));
        }
        store => runs::with_store(&with_documents.host, store.as_ref()).await?,
    };
    // Before the first line, after which a program may send a signal.
    let mut signals = StopSignals::watch();
    let worker = runtime.worker().concurrency(args.concurrency).names(args.names);
    line("takes runs; stop with Ctrl-C or SIGTERM")?;
    let signal = tokio::select! {
        ended = worker.run() => return Ok(ended?),
        signal = signals.received() => signal,
    };
    // A second Ctrl-C exits at once.
    note("takes no more runs, and waits for running steps");
    note_left(&runtime.drain(args.drain_timeout).await, &named_store);
    match signal {
        Signal::CtrlC => Err(ctrl_c::stopped()),
        Signal::Terminate => Ok(()),
    }
}

pub(super) fn note_left(drained: &Drained, store: &str) {
    for run in &drained.left {
        note(format_args!(
            "the run `{run}` is not finished; another worker continues it, or: runs resume {run}{store}"
        ));
    }
}
