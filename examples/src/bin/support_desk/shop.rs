//! The shop behind the desk: its orders, parcels, and a payment provider that keeps each payment in a file of its own. A
//! real desk calls other services here.

use std::path::{Path, PathBuf};
use std::{fs, io};

use agentflow::serde_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest amount in cents that is paid back without a person's word.
pub(crate) const LIMIT: u32 = 5_000;

/// What was bought.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Order {
    pub(crate) number: u32,
    pub(crate) article: String,
    pub(crate) cents: u32,
}

/// A payment to a customer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Payment {
    pub(crate) order: u32,
    pub(crate) cents: u32,
}

/// The shop.
#[derive(Debug)]
pub(crate) struct Shop {
    payments: PathBuf,
}

impl Shop {
    /// A shop that keeps its payments in this folder.
    pub(crate) fn open(payments: &Path) -> io::Result<Self> {
        fs::create_dir_all(payments)?;
        Ok(Self { payments: payments.to_owned() })
    }

    /// The order of a number: there are 100,000 of them.
    pub(crate) fn order(&self, number: u32) -> Option<Order> {
        let articles = [("a tea pot", 1_900), ("a lamp", 4_900), ("an armchair", 12_900)];
        let (article, cents) = articles[number as usize % articles.len()];
        (1..=100_000).contains(&number).then(|| Order { number, article: article.to_owned(), cents })
    }

    /// Where the parcel of an order is.
    pub(crate) fn parcel(&self, number: u32) -> &'static str {
        ["on its way", "at the customs office", "lost"][number as usize % 3]
    }

    /// Pays once for each key, whoever asks how often: the first payment of a key is the answer to all later ones. The
    /// payment is in its file as a whole or not at all.
    pub(crate) fn pay(&self, key: &str, payment: &Payment) -> io::Result<Payment> {
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let kept = self.payments.join(format!("{name}.json"));
        if !kept.exists() {
            let mut file = tempfile::NamedTempFile::new_in(&self.payments)?;
            serde_json::to_writer(&mut file, payment)?;
            // Of two at once the first one counts.
            let _ = file.persist_noclobber(&kept);
        }
        Ok(serde_json::from_slice(&fs::read(kept)?)?)
    }
}
