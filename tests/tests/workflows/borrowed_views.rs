//! A `let` that borrows from a recorded value. Each reader computes the view again, and a view that
//! may be missing fails where it is written. Each body is written once as a plain `async fn` and as
//! a `#[workflow]`, with the same results and effects.

use std::sync::{Arc, Mutex};

use agentflow::prelude::*;

type Failed = Box<dyn std::error::Error + Send + Sync>;

tokio::task_local! {
    static EFFECTS: Arc<Mutex<Vec<String>>>;
}

/// Keeps what it is given.
#[tool]
async fn keep(text: String) -> usize {
    // Steps are polled in the task of their run.
    let _ = EFFECTS.try_with(|effects| effects.lock().unwrap().push(text.clone()));
    text.len()
}

async fn count(text: &str) -> Result<usize, Failed> {
    Ok(text.len())
}

fn parsed(text: &str) -> Result<usize, String> {
    if text.contains(':') { Err(format!("{text} has a colon")) } else { Ok(text.len()) }
}

async fn narrow(n: u8) -> u8 {
    n
}

async fn outcome(
    run: impl Future<Output = Result<usize, Failed>> + Send + 'static,
) -> (String, Vec<String>) {
    let effects = Arc::<Mutex<Vec<String>>>::default();
    let ended = match tokio::spawn(EFFECTS.scope(Arc::clone(&effects), run)).await {
        Ok(ended) => ended.map_or_else(|error| error.to_string(), |counted| counted.to_string()),
        Err(_) => "panicked".to_owned(),
    };
    let ended = if ended.contains("panicked") { "panicked".to_owned() } else { ended };
    let all = effects.lock().unwrap().clone();
    (ended, all)
}

macro_rules! twins {
    ($line:ident, $words:ident, $note:ident; $($name:ident $body:tt)*) => {
        twins!(@ $($name ($line, $words, $note) $body)*);
    };
    (@ $($name:ident ($line:ident, $words:ident, $note:ident) { $($body:tt)* })*) => {
        $(mod $name {
            #![allow(unused_variables, unused_imports)]
            use super::*;

            pub(super) async fn plain($line: String, $words: Vec<String>, $note: Option<String>) -> Result<usize, Failed> {
                $($body)*
            }

            #[workflow]
            pub(super) async fn $name($line: String, $words: Vec<String>, $note: Option<String>) -> Result<usize, Failed> {
                $($body)*
            }
        })*

        #[tokio::test]
        async fn a_view_means_the_same() {
            for line in ["", "Re: tea", "[[tag", "a:b", " x ", "/tmp/list.txt"] {
                for words in [vec![], vec!["one".to_owned()], vec!["".to_owned(), "a: b".to_owned()]] {
                    for note in [None, Some(" ".to_owned()), Some("long note".to_owned())] {
                        $(
                            let plain = outcome($name::plain(line.to_owned(), words.clone(), note.clone())).await;
                            let flow = outcome($name::$name(line.to_owned(), words.clone(), note.clone())).await;
                            assert_eq!(plain, flow, "{} {line:?} {words:?} {note:?}", stringify!($name));
                        )*
                    }
                }
            }
        }
    };
}

twins! {
    line, words, note;

    something_in_its_place {
        let rest = line.strip_prefix("Re: ").unwrap_or(&line);
        let counted = count(rest).await?;
        let kept = keep(rest.to_owned()).await;
        Ok(counted + kept)
    }
    trimmed {
        let tag = line.trim_start_matches('[').trim_end_matches("tag");
        let counted = count(tag).await?;
        Ok(counted + keep(tag.to_owned()).await)
    }
    a_default_text {
        let text = note.as_deref().unwrap_or("none");
        let last = words.last().map(String::as_str).unwrap_or("");
        let counted = count(text).await?;
        Ok(counted + keep(last.to_owned()).await)
    }
    closures {
        let text = note.as_deref().map(|note| note.trim()).filter(|note| !note.is_empty()).unwrap_or_else(|| &line);
        let first = words.first().map_or("nothing", |word| word.as_str());
        let counted = count(text).await?;
        Ok(counted + keep(first.to_owned()).await)
    }
    an_error_where_it_is_written {
        keep("before".to_owned()).await;
        let (tag, text) = line.split_once(':').ok_or_else(|| format!("no tag in {line}"))?;
        keep("after".to_owned()).await;
        let counted = count(text).await?;
        Ok(counted + tag.len())
    }
    an_error_that_nobody_reads_past {
        let _first = words.first().ok_or("no words")?;
        keep("after".to_owned()).await;
        Ok(1)
    }
    a_panic_where_it_is_written {
        keep("before".to_owned()).await;
        let first: &str = words.first().map(String::as_str).unwrap();
        keep("after".to_owned()).await;
        let counted = count(first).await?;
        Ok(counted)
    }
    an_error_in_a_round {
        for word in words {
            let (name, value) = word.split_once(": ").ok_or("not a pair")?;
            keep(name.to_owned()).await;
            keep(value.to_owned()).await;
        }
        Ok(0)
    }
    loops_within_loops_of_borrowed_lists {
        let table = vec![words.clone(), vec![line.clone()], words];
        for (y, row) in table.iter().enumerate() {
            for word in row {
                keep(format!("{y} {word}")).await;
            }
            for (x, word) in row.iter().enumerate() {
                keep(format!("{x} {y} {word}")).await;
            }
        }
        for row in &table {
            let lengths = row.iter().map(|word| word.len()).collect::<Vec<_>>();
            for length in lengths {
                keep(length.to_string()).await;
            }
        }
        let again = &table;
        for row in again {
            for word in row.iter() {
                keep(word.to_owned()).await;
            }
        }
        for row in table {
            for word in row {
                keep(word).await;
            }
        }
        Ok(1)
    }
    what_can_fail_in_a_value {
        keep("before".to_owned()).await;
        let number = parsed(&line)?;
        keep("after".to_owned()).await;
        let again = parsed(&line)?;
        let open = line.len().try_into()?;
        Ok(number + again + usize::from(narrow(open).await))
    }
    a_view_of_a_view {
        let rest = line.strip_prefix('/').ok_or("no path")?;
        let (folder, file) = rest.split_once('/').ok_or("no folder")?;
        let name = file.strip_suffix(".txt").unwrap_or(file);
        let counted = count(name).await?;
        Ok(counted + keep(folder.to_owned()).await)
    }
}
