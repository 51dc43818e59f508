//! Finds the runs that this process may open: unfinished runs whose process has ended or has
//! released them.

use std::collections::HashMap;

use agentflow_core::store::{RunFilter, RunOrder, RunRecord, StoreError};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::listed_keys::ListedKeys;
use super::owner;
use super::row;
use super::sqlite_error::StoreErrors;

/// Returns the runs of a filter that no living process has open, oldest first. Runs that cannot be
/// read are omitted.
///
/// A process that has just created its lock file may look as if it had ended. The run is then
/// listed, and opening it fails, because that decision is made within a write transaction.
pub(super) fn runs(
    connection: &Connection,
    errors: &StoreErrors,
    filter: RunFilter,
) -> Result<Vec<RunRecord>, StoreError> {
    let sql = |error| errors.sql(error);
    let limit = filter.get_limit().unwrap_or(usize::MAX);
    let moment = connection.unchecked_transaction().map_err(sql)?;
    let filter = filter.without_limit().order(RunOrder::Created);
    let mut keys = newest_first(&moment, &filter).map_err(sql)?;
    let mut owners = moment.prepare_cached("SELECT owner FROM runs WHERE key = ?1").map_err(sql)?;
    let record_of_key = format!("SELECT {} WHERE runs.key = ?1", row::RECORD);
    let mut records = moment.prepare_cached(&record_of_key).map_err(sql)?;
    let mut living = HashMap::new();
    let mut runs = Vec::new();
    while runs.len() < limit
        && let Some(key) = keys.pop()
    {
        let owner: Option<String> =
            owners.query_row([key], |row| row.get(0)).optional().map_err(sql)?.flatten();
        if let Some(owner) = owner {
            let lives = match living.get(&owner) {
                Some(lives) => *lives,
                None => owner::alive(errors.path(), &owner).is_ok_and(|process| process.is_some()),
            };
            living.insert(owner, lives);
            if lives {
                continue;
            }
        }
        let record = records.query_row([key], |row| Ok(row::record(row, errors)));
        match record.optional().map_err(sql)? {
            Some(Ok(record)) => runs.push(record),
            Some(Err(error)) => {
                tracing::debug!(%error, "a run cannot be read and is not claimable");
            }
            None => {}
        }
    }
    Ok(runs)
}

fn newest_first(connection: &Connection, filter: &RunFilter) -> rusqlite::Result<Vec<i64>> {
    let ListedKeys { sql, values } = ListedKeys::new(filter);
    let mut select = connection.prepare_cached(&sql)?;
    let keys = select.query_map(params_from_iter(values), |row| row.get(0))?;
    keys.collect()
}
