//! The shop behind the desk: orders, parcels, and a payment provider that stores each payment in a
//! separate file. A real desk would call other services.

use std::path::{Path, PathBuf};
use std::{fs, io};

use agentflow::serde_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum refund in cents without approval.
pub(crate) const LIMIT: u32 = 5_000;

/// An order of a customer.
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
    /// Opens a shop that stores its payments in this folder.
    pub(crate) fn open(payments: &Path) -> io::Result<Self> {
        fs::create_dir_all(payments)?;
        Ok(Self { payments: payments.to_owned() })
    }

    /// Returns an order by its number, from 1 to 100,000.
    pub(crate) fn order(&self, number: u32) -> Option<Order> {
        let articles = [("a tea pot", 1_900), ("a lamp", 4_900), ("an armchair", 12_900)];
        let (article, cents) = articles[number as usize % articles.len()];
        (1..=100_000).contains(&number).then(|| Order {
            number,
            article: article.to_owned(),
            cents,
        })
    }

    /// Returns the location of an order's parcel.
    pub(crate) fn parcel(&self, number: u32) -> &'static str {
        ["on its way", "at the customs office", "lost"][number as usize % 3]
    }

    /// Pays once per key. Later calls with the same key return the first payment. A payment's file
    /// is written atomically.
    pub(crate) fn pay(&self, key: &str, payment: &Payment) -> io::Result<Payment> {
        let name: String =
            key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let kept = self.payments.join(format!("{name}.json"));
        if !kept.exists() {
            let mut file = tempfile::NamedTempFile::new_in(&self.payments)?;
            serde_json::to_writer(&mut file, payment)?;
            // If two payments race, the first one wins.
            let _ = file.persist_noclobber(&kept);
        }
        Ok(serde_json::from_slice(&fs::read(kept)?)?)
    }
}
