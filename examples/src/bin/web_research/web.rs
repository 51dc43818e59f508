//! A simulated web of a few pages. It supports searching and fetching, and counts concurrent
//! fetches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::flow::Chunk;

/// Address, title and text of each page.
const PAGES: [(&str, &str, &str); 5] = [
    (
        "https://sea.example/tides",
        "Tides",
        "Tides are the rise and fall of the sea. The pull of the moon lifts the water on the near side and on the far side.",
    ),
    (
        "https://sky.example/moon",
        "The moon and the sea",
        "The moon pulls the water of the sea. Most coasts have two high tides a day because the earth turns below the water.",
    ),
    (
        "https://sea.example/spring-tides",
        "Spring tides",
        "When sun and moon pull together, tides are highest. These are spring tides, twice a month.",
    ),
    (
        "https://bread.example/rye",
        "Rye bread",
        "Rye bread is baked of rye. Its dough rises slowly.",
    ),
    ("https://bread.example/yeast", "Yeast", "Yeast makes dough rise. It lives on sugar."),
];

/// Stop words.
const COMMON: [&str; 17] = [
    "how", "do", "does", "work", "the", "of", "a", "on", "is", "are", "what", "and", "in", "it",
    "its", "because", "at",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Web(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    fetched: AtomicUsize,
    open: AtomicUsize,
    at_once: AtomicUsize,
}

impl Web {
    /// Returns the addresses of the pages that contain words of the query, best matches first.
    pub(crate) fn search(&self, query: &str) -> Vec<String> {
        let wanted = words(query);
        let hits = |text: &str| words(text).iter().filter(|word| wanted.contains(word)).count();
        let mut found: Vec<_> =
            PAGES.iter().map(|(url, title, text)| (hits(title) + hits(text), *url)).collect();
        found.retain(|(hits, _)| *hits > 0);
        found.sort_by_key(|(hits, url)| (usize::MAX - hits, *url));
        found.into_iter().map(|(_, url)| url.to_owned()).collect()
    }

    pub(crate) async fn fetch(&self, url: &str) -> Option<Chunk> {
        self.0.fetched.fetch_add(1, Ordering::SeqCst);
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.at_once.fetch_max(open, Ordering::SeqCst);
        // Simulates latency, so that several fetches overlap.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        let (url, title, text) = PAGES.iter().find(|(of, ..)| *of == url)?;
        Some(Chunk { url: (*url).to_owned(), title: (*title).to_owned(), text: (*text).to_owned() })
    }

    pub(crate) fn fetched(&self) -> usize {
        self.0.fetched.load(Ordering::SeqCst)
    }

    pub(crate) fn at_once(&self) -> usize {
        self.0.at_once.load(Ordering::SeqCst)
    }
}

/// Returns the words of a text without stop words.
pub(crate) fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| !word.is_empty() && !COMMON.contains(&word.as_str())).collect()
}
