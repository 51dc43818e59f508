//! Builds the SQL query for the keys of one page of runs. The query reads the keys in the order of
//! an index, without the records. `run_conditions.rs` builds the query for the order of the last
//! change.

use agentflow_core::store::{RunFilter, RunOrder, RunStatus};
use agentflow_core::time::Timestamp;
use rusqlite::types::Value;

use super::row;
use super::run_conditions::{self, RunQuery};

/// A query with its parameters. The first column is the key of a run. The newest run is first.
///
/// SQLite must not sort, because it would sort all remaining runs for each page. One index is
/// chosen. The other conditions hide their columns from the planner with a unary `+`. Each of
/// several statuses is a query, and SQLite merges the results. With a tag, SQLite sorts only runs
/// that were created in the same millisecond.
pub(super) struct ListedKeys {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// The index that orders the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Age,
    Caller,
    Session,
    Status,
    Tag,
}

impl ListedKeys {
    pub(super) fn new(filter: &RunFilter) -> Self {
        if filter.get_order() == RunOrder::Changed {
            let RunQuery { sql, values } = RunQuery::last_changed(filter);
            return Self { sql, values };
        }
        let mut keys = Self { sql: String::new(), values: Vec::new() };
        let mut statuses: Vec<RunStatus> = Vec::new();
        for status in filter.get_statuses() {
            if !statuses.contains(status) {
                statuses.push(*status);
            }
        }
        // Unfinished runs are few, so their index is the most selective one.
        let few = !statuses.is_empty() && !statuses.iter().any(|status| status.has_ended());
        let index = match filter {
            _ if filter.get_session().is_some() => Index::Session,
            _ if few => Index::Status,
            _ if !filter.get_tags().is_empty() => Index::Tag,
            _ if filter.get_caller().is_some() => Index::Caller,
            _ if statuses.is_empty() => Index::Age,
            _ => Index::Status,
        };
        match index {
            Index::Status => {
                for (at, status) in statuses.iter().enumerate() {
                    keys.sql.push_str(if at > 0 { " UNION ALL " } else { "" });
                    keys.select(filter, index, std::slice::from_ref(status));
                }
            }
            _ => keys.select(filter, index, &statuses),
        }
        keys.sql.push_str(" ORDER BY created DESC, run_id DESC LIMIT ?");
        keys.values.push(Value::Integer(
            filter.get_limit().map_or(-1, |limit| i64::try_from(limit).unwrap_or(-1)),
        ));
        keys
    }

    /// Adds a query for the runs with these statuses. Without statuses, it selects all runs.
    fn select(&mut self, filter: &RunFilter, index: Index, statuses: &[RunStatus]) {
        let (from, created) = match index {
            Index::Tag => ("tags CROSS JOIN runs ON runs.key = tags.run", "tags.created"),
            _ => ("runs", "runs.created"),
        };
        self.sql.push_str(&format!(
            "SELECT runs.key AS key, {created} AS created, runs.run_id AS run_id FROM {from} WHERE TRUE"
        ));
        let (found_by, tags) = match (index, filter.get_tags()) {
            (Index::Tag, [first, others @ ..]) => (Some(first), others),
            (_, all) => (None, all),
        };
        if let Some((tag, value)) = found_by {
            self.text(Some(tag), "tags.tag");
            self.text(Some(value), "tags.value");
        }
        for (tag, value) in tags {
            self.sql.push_str(
                " AND EXISTS (SELECT 1 FROM tags AS other WHERE other.run = runs.key AND other.tag = ? AND other.value = ?)",
            );
            self.values.extend([Value::Text(tag.clone()), Value::Text(value.clone())]);
        }
        if let ([status], Index::Status) = (statuses, index) {
            self.text(Some(status.as_str()), "runs.status");
        } else if !statuses.is_empty() {
            let places = vec!["?"; statuses.len()].join(", ");
            self.sql.push_str(&format!(" AND +runs.status IN ({places})"));
            self.values.extend(statuses.iter().map(|status| Value::Text(status.to_string())));
        }
        self.text(filter.get_name(), "runs.name");
        self.text(
            filter.get_caller(),
            if index == Index::Caller { "runs.caller" } else { "+runs.caller" },
        );
        self.text(filter.get_session(), "runs.session");
        let millis = |time: Timestamp| Value::Integer(row::number(time.as_millis()));
        if let Some(since) = filter.get_since() {
            self.sql.push_str(&format!(" AND {created} >= ?"));
            self.values.push(millis(since));
        }
        if let Some(until) = filter.get_until() {
            // On a further page, the position of the last run is the narrower bound. The planner
            // must use that bound.
            let hidden = if filter.get_after().is_some() { "+" } else { "" };
            self.sql.push_str(&format!(" AND {hidden}{created} < ?"));
            self.values.push(millis(until));
        }
        if let Some(since) = filter.get_changed_since() {
            self.sql.push_str(&format!(" AND {} >= ?", run_conditions::UPDATED));
            self.values.push(millis(since));
        }
        if let Some((at, run)) = filter.get_after() {
            if index == Index::Tag {
                // The index of tags does not contain run ids.
                self.sql.push_str(" AND tags.created <= ?");
                self.values.push(millis(at));
            }
            self.sql.push_str(&format!(" AND ({created}, runs.run_id) < (?, ?)"));
            self.values.extend([millis(at), Value::Text(run.to_string())]);
        }
    }

    fn text(&mut self, wanted: Option<&str>, column: &str) {
        if let Some(wanted) = wanted {
            self.sql.push_str(&format!(" AND {column} = ?"));
            self.values.push(Value::Text(wanted.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agentflow_core::store::{RunFilter, RunRecord, RunStatus};
    use agentflow_core::time::Timestamp;
    use rusqlite::{Connection, StatementStatus, params_from_iter};
    use serde_json::json;

    use super::ListedKeys;
    use crate::store::sqlite_error::StoreErrors;
    use crate::store::upgrade::MIGRATIONS;
    use crate::store::{reader, row};

    /// Creates a database with this number of runs: three quarters have ended, and half belong to
    /// one session.
    fn filled(runs: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for migration in MIGRATIONS {
            connection.execute_batch(migration).unwrap();
        }
        let insert = "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < ?1) \
             INSERT INTO runs (run_id, version, name, status, created, epoch, caller, session, session_number) \
             SELECT format('run_%08d', n), 1, 'nightly', \
             CASE n % 8 WHEN 0 THEN 'paused' WHEN 4 THEN 'compensating' WHEN 1 THEN 'cancelled' WHEN 2 THEN 'failed' \
             ELSE 'success' END, n / 2, 1, CASE n % 16 WHEN 15 THEN 'bob' ELSE 'ada' END, \
             CASE WHEN n % 8 IN (1, 2, 3, 5) THEN 's' END, CASE WHEN n % 8 IN (1, 2, 3, 5) THEN n END FROM n";
        connection.execute(insert, [runs]).unwrap();
        let tags = "INSERT INTO tags (run, tag, value, created) \
             SELECT key, 'desk', 'sports', created FROM runs WHERE key % 2 = 0 UNION ALL \
             SELECT key, 'third', '1', created FROM runs WHERE key % 3 = 0";
        connection.execute_batch(tags).unwrap();
        connection
    }

    /// Reads all pages of a list. Returns the number of runs and the number of steps of SQLite's
    /// virtual machine.
    fn pages(connection: &Connection, filter: &RunFilter) -> (usize, i64) {
        let (mut found, mut steps) = (Vec::new(), 0);
        let mut filter = filter.clone().limit(50);
        loop {
            let keys = ListedKeys::new(&filter);
            let mut select = connection.prepare(&keys.sql).unwrap();
            let mut rows = select.query(params_from_iter(keys.values)).unwrap();
            let mut page: Vec<(i64, String)> = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                page.push((row.get(1).unwrap(), row.get(2).unwrap()));
            }
            drop(rows);
            // With a tag, runs that were created at the same time are sorted.
            if filter.get_tags().is_empty() {
                assert_eq!(select.get_status(StatementStatus::Sort), 0, "{}", keys.sql);
            }
            steps += i64::from(select.get_status(StatementStatus::VmStep));
            let Some((created, run)) = page.last().cloned() else { return (found.len(), steps) };
            let last = json!({
                "run_id": run, "name": "nightly", "definition": null, "status": "success", "pause_reason": null,
                "error": null, "created": created, "updated": created, "events": 1,
            });
            filter = filter.after(&serde_json::from_value::<RunRecord>(last).unwrap());
            found.extend(page);
            assert!(found.windows(2).all(|two| two[0] > two[1]), "{}", keys.sql);
        }
    }

    #[test]
    fn pages_of_a_list_cost_what_they_hold() {
        let ended = [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled];
        let ended = ended.into_iter().fold(RunFilter::new(), RunFilter::status);
        let filters = [
            (RunFilter::new(), 4_000),
            (ended.clone(), 3_000),
            (ended.clone().status(RunStatus::Failed).name("nightly"), 3_000),
            (ended.clone().caller("ada"), 2_750),
            (ended.clone().session("s"), 2_000),
            (RunFilter::new().session("s"), 2_000),
            (RunFilter::new().caller("ada").session("s"), 2_000),
            (RunFilter::unfinished(), 1_000),
            (RunFilter::unfinished().caller("ada"), 1_000),
            (RunFilter::unfinished().tag("desk", "sports"), 1_000),
            (RunFilter::new().tag("desk", "sports"), 2_000),
            (ended.clone().tag("desk", "sports").caller("ada"), 1_000),
            (
                RunFilter::new()
                    .since(Timestamp::from_millis(0))
                    .until(Timestamp::from_millis(9_000)),
                4_000,
            ),
        ];
        let (few, many) = (filled(1_000), filled(4_000));
        for (filter, expected) in filters {
            let (found, steps) = pages(&many, &filter);
            assert_eq!(found, expected, "{filter:?}");
            let (_, steps_of_few) = pages(&few, &filter);
            assert!(
                steps < steps_of_few * 5,
                "{steps_of_few} steps for a quarter of {steps}: {filter:?}"
            );
            assert!(steps < 60 * 4_000, "{steps} steps: {filter:?}");
        }
    }

    /// Returns filters for all combinations of conditions.
    fn combined(all: &[RunRecord]) -> Vec<RunFilter> {
        let mut filters = vec![RunFilter::new()];
        let mut either = |with: &[&dyn Fn(RunFilter) -> RunFilter]| {
            let changed =
                filters.iter().flat_map(|filter| with.iter().map(|with| with(filter.clone())));
            let changed: Vec<RunFilter> = changed.collect();
            filters.extend(changed);
        };
        either(&[
            &|filter| filter.status(RunStatus::Success).status(RunStatus::Failed),
            &|filter| {
                filter
                    .status(RunStatus::Paused)
                    .status(RunStatus::Paused)
                    .status(RunStatus::Compensating)
            },
            &|filter| filter.status(RunStatus::Paused).status(RunStatus::Cancelled),
        ]);
        either(&[&|filter| filter.name("nightly"), &|filter| filter.name("daily")]);
        either(&[&|filter| filter.caller("ada"), &|filter| filter.caller("bob")]);
        either(&[&|filter| filter.tag("desk", "sports"), &|filter| {
            filter.tag("desk", "sports").tag("third", "1")
        }]);
        either(&[&|filter| filter.session("s")]);
        either(&[&|filter| filter.since(Timestamp::from_millis(20)), &|filter| {
            filter.until(Timestamp::from_millis(30))
        }]);
        either(&[&|filter| filter.after(&all[all.len() / 2])]);
        either(&[&|filter| filter.limit(7)]);
        filters
    }

    #[test]
    fn every_filter_selects_what_it_admits() {
        let connection = filled(80);
        let errors = StoreErrors::for_path("runs.db".into(), Duration::ZERO);
        let sql = format!("SELECT {}", row::RECORD);
        let all = RunFilter::new().select(reader::records(&connection, &errors, &sql, []).unwrap());
        assert_eq!(all.len(), 80);
        for filter in combined(&all) {
            let ids =
                |runs: Vec<RunRecord>| runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>();
            let listed = reader::list(&connection, &errors, &filter).unwrap();
            assert_eq!(ids(listed.runs), ids(filter.select(all.clone())), "{filter:?}");
            assert!(listed.unreadable.is_empty(), "{filter:?}");
        }
    }

    #[test]
    fn a_page_of_the_newest_runs_does_not_read_the_rest() {
        let connection = filled(4_000);
        for filter in [
            RunFilter::new().session("s"),
            RunFilter::new().caller("ada"),
            RunFilter::new().tag("desk", "sports"),
            RunFilter::unfinished(),
        ] {
            let keys = ListedKeys::new(&filter.limit(20));
            let mut select = connection.prepare(&keys.sql).unwrap();
            let found =
                select.query_map(params_from_iter(keys.values), |_| Ok(())).unwrap().count();
            let steps = select.get_status(StatementStatus::VmStep);
            assert_eq!(found, 20);
            assert!(steps < 2_000, "{steps} steps: {}", keys.sql);
        }
    }
}
