//! The lease of this process on the runs that it has open.
//!
//! A process has one row in the table `owners` for each store, with a time at which it expires. The
//! time comes from the database, so the clocks of machines do not matter. A background task renews
//! the row. A run whose owner has no row or an expired one may be opened by any process. The lease
//! only decides if a run may be taken from a process. The epoch prevents two processes from writing
//! to one run.

use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::Error;

use super::database::{Database, Session};
use super::notices::RUNS;
use super::postgres_error::Failed;

/// Days after which the row of an ended process is deleted.
const FORGET: &str = "DELETE FROM owners WHERE expires < clock_timestamp() - interval '1 day'";

/// The owners of this process, one for each store that is open.
static OWNERS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    store: String,
    id: String,
    handles: usize,
}

/// This process as the owner of runs in one store. All handles of the store share the id, so that
/// they can take runs from each other.
#[derive(Debug)]
pub(super) struct ProcessOwner {
    id: String,
}

impl ProcessOwner {
    /// Returns the owner of this process for a store.
    pub(super) fn acquire(store: &str) -> Self {
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = owners.iter_mut().find(|entry| entry.store == store) {
            entry.handles += 1;
            return Self { id: entry.id.clone() };
        }
        let id = format!("{}-{:016x}", process::id(), fastrand::u64(..));
        owners.push(Entry { store: store.to_owned(), id: id.clone(), handles: 1 });
        Self { id }
    }

    /// The id in the columns `owner` and `owners.id`.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Gives up one handle. Returns `true` if it was the last one, so that the lease ends.
    pub(super) fn release(&self) -> bool {
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = owners.iter().position(|entry| entry.id == self.id) else { return false };
        owners[at].handles -= 1;
        let is_last = owners[at].handles == 0;
        if is_last {
            owners.swap_remove(at);
        }
        is_last
    }
}

/// Statement that renews a lease and sends the process a notification.
pub(super) const RENEW_AND_ECHO: &str = "WITH renewed AS (INSERT INTO owners (id, name, expires) \
     VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second') \
     ON CONFLICT (id) DO UPDATE SET expires = EXCLUDED.expires RETURNING id) \
     SELECT pg_notify($4, $5) FROM renewed";

/// Statement that creates or renews a lease.
const RENEW: &str = "INSERT INTO owners (id, name, expires) \
     VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second') \
     ON CONFLICT (id) DO UPDATE SET expires = EXCLUDED.expires";

/// Creates the lease, and deletes the rows of processes that ended long ago.
pub(super) async fn create(
    database: &Database,
    owner: &str,
    lease: Duration,
) -> Result<(), agentflow_core::store::StoreError> {
    let (name, seconds) = (process_name(), lease.as_secs_f64());
    database
        .write(async |session: Session, _| {
            session.execute(RENEW, &[&owner, &name, &seconds]).await?;
            Ok::<_, Failed>(session.execute(FORGET, &[]).await?)
        })
        .await
        .map(drop)
}

/// Ends the lease, and notifies the workers if runs are free because of that. If this fails, the
/// lease expires.
pub(super) async fn end(database: &Database, owner: &str, channel: &str) {
    let sql = "WITH ended AS (DELETE FROM owners WHERE id = $1 RETURNING id) \
               SELECT pg_notify($2, $3) FROM ended \
               WHERE EXISTS (SELECT 1 FROM runs WHERE owner = $1)";
    let ended = database.write(async |session: Session, _| {
        Ok::<_, Failed>(session.row(sql, &[&owner, &channel, &RUNS]).await?)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "the lease of this process could not be ended, so it expires");
    }
}

/// Returns the name of an owner, if its lease has not expired.
pub(super) async fn alive(session: &Session, owner: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT name FROM owners WHERE id = $1 AND expires > clock_timestamp()";
    session.row(sql, &[&owner]).await?.map(|row| row.try_get(0)).transpose()
}

/// Describes this process for a person.
pub(super) fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .map(|name| name.trim().replace(['\0', '\u{1}'], ""))
        .filter(|name| !name.is_empty());
    match host {
        Some(host) => format!("process {} on {host}", process::id()),
        None => format!("process {}", process::id()),
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessOwner;

    #[test]
    fn handles_of_a_store_share_the_owner_until_the_last_is_released() {
        let (one, two) = (ProcessOwner::acquire("a"), ProcessOwner::acquire("a"));
        let other = ProcessOwner::acquire("b");
        assert_eq!(one.id(), two.id());
        assert_ne!(one.id(), other.id());
        assert_eq!((one.release(), two.release(), two.release()), (false, true, false));
        let next = ProcessOwner::acquire("a");
        assert_ne!(next.id(), one.id());
        assert!(next.release() && other.release());
    }
}
