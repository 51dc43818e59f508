//! Functions for generated programs: types, values, steps, tools. The plain function and the
//! workflow call the same ones. Each one records its actions in the world.

use std::fmt;
use std::time::Duration;

use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::{Approval, Context, tool};

use super::tokens::stripped;
use super::world::{Act, note, pace, set_shared_rate, shared_rate};
pub use super::world::{GAUGE, LOCAL, RATE, hashed, new_id, stamp};

/// A thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
pub struct Item {
    /// A number.
    pub number: i64,
    /// A text.
    pub label: String,
    /// More texts.
    pub tags: Vec<String>,
}

impl Item {
    /// Returns a different text each time. The method has a name of the standard library.
    pub fn last(&self, site: u64) -> String {
        format!("{}~{}", self.label, new_id(site))
    }

    /// Like [`Self::last`].
    pub fn replace(&self, site: u64) -> String {
        format!("{}/{}", self.number, stamp(site))
    }

    /// Reads and records the access. The method has a name of the standard library.
    pub fn get(&self, site: u64) -> Option<i64> {
        note(Act::Read, "get", site, self.number.to_string());
        (self.number % 2 == 0).then_some(self.number)
    }

    /// Like [`Self::get`].
    pub fn len(&self, site: u64) -> i64 {
        note(Act::Read, "len", site, self.label.clone());
        self.label.len() as i64
    }

    /// Returns a part of the value.
    pub fn as_str(&self) -> &str {
        &self.label
    }
}

/// Adds a number that depends on the current rate, which `set_rate` changes.
impl std::ops::Add<i64> for Item {
    type Output = i64;

    fn add(self, number: i64) -> i64 {
        (self.number + number * shared_rate()) % 97
    }
}

/// A shelf outside of the program, whose methods have names of the standard library.
#[derive(Debug)]
pub struct Shelf;

/// The shelf.
pub static SHELF: Shelf = Shelf;

impl Shelf {
    /// Returns a different text each time.
    pub fn last(&self, site: u64) -> String {
        new_id(site)
    }

    /// Reads and records the access.
    pub fn get(&self, site: u64, number: i64) -> Option<i64> {
        note(Act::Read, "shelf", site, number.to_string());
        (number % 3 != 1).then_some(number)
    }
}

/// A dial outside of the program, which `set_rate` turns. Its methods have names of the standard library.
#[derive(Debug)]
pub struct Dial;

/// The dial.
pub static DIAL: Dial = Dial;

impl Dial {
    /// Returns the current rate.
    pub fn get(&self) -> i64 {
        shared_rate()
    }

    /// Returns the larger number.
    pub fn max(&self, number: i64) -> i64 {
        shared_rate().max(number)
    }
}

/// A value of one of several types, without a tag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde", untagged)]
#[schemars(crate = "agentflow::schemars")]
pub enum Loose {
    /// A number.
    Number(i64),
    /// Several.
    Numbers(Vec<i64>),
    /// A text.
    Word {
        /// The text.
        word: String,
    },
}

impl Loose {
    /// Creates a value that depends on a number.
    pub fn of(number: i64) -> Self {
        match number.rem_euclid(3) {
            0 => Self::Number(number),
            1 => Self::Numbers(vec![number, number + 1]),
            _ => Self::Word { word: format!("w{number}") },
        }
    }
}

/// One of several things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
pub enum Kind {
    /// With a number.
    Small(i64),
    /// With a text.
    Named {
        /// The text.
        label: String,
    },
    /// With nothing.
    Empty,
}

impl Kind {
    /// Creates a value that depends on a number.
    pub fn of(number: i64) -> Self {
        match number.rem_euclid(3) {
            0 => Self::Small(number),
            1 => Self::Named { label: format!("k{number}") },
            _ => Self::Empty,
        }
    }
}

/// The error of generated programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
pub enum Fault {
    /// Of a step.
    Step(String),
    /// Of the run around it.
    Run(String),
}

impl Fault {
    /// Creates the error of a step.
    pub fn new(text: impl Into<String>) -> Self {
        Self::Step(text.into())
    }

    /// Adds a place to the error's text.
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Step(text) => Self::Step(format!("{place}: {text}")),
            Self::Run(text) => Self::Run(text),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(text) | Self::Run(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl From<agentflow::Error> for Fault {
    fn from(error: agentflow::Error) -> Self {
        Self::Run(error.to_string())
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Step(text)
    }
}

fn refusal(site: u64, number: i64) -> Option<String> {
    let refused = (number + site as i64 * 5).rem_euclid(29) == 17;
    refused.then(|| format!("call {site} refuses {number}"))
}

fn refuse(site: u64, number: i64) -> Result<(), Fault> {
    refusal(site, number).map_or(Ok(()), |text| Err(Fault::Step(text)))
}

fn small(text: &str) -> u64 {
    text.len() as u64
}

// Steps that are plain functions.

/// A pure step.
pub async fn double(site: u64, number: i64) -> Result<i64, Fault> {
    pace(site, number as u64).await;
    refuse(site, number)?;
    Ok((number * 2 + 1) % 997)
}

/// A step that cannot fail.
pub async fn next(site: u64, number: i64) -> i64 {
    pace(site, number as u64).await;
    (number + 1) % 997
}

/// A step that reads a reference.
pub async fn describe(site: u64, text: &str) -> Result<String, Fault> {
    pace(site, small(text)).await;
    refuse(site, text.len() as i64)?;
    Ok(format!("[{text}]"))
}

/// A step that returns a list.
pub async fn split(site: u64, number: i64) -> Result<Vec<i64>, Fault> {
    pace(site, number as u64).await;
    refuse(site, number)?;
    Ok((0..number.rem_euclid(4)).map(|n| (n + number) % 997).collect())
}

/// A step that returns an option.
pub async fn find(site: u64, numbers: &[i64]) -> Result<Option<i64>, Fault> {
    pace(site, numbers.len() as u64).await;
    Ok(numbers.iter().copied().find(|n| n % 3 == 1))
}

/// A step that returns an enum.
pub async fn classify(site: u64, number: i64) -> Result<Kind, Fault> {
    pace(site, number as u64).await;
    refuse(site, number)?;
    Ok(Kind::of(number))
}

/// A step that returns a pair.
pub async fn pair(site: u64, number: i64) -> Result<(i64, String), Fault> {
    pace(site, number as u64).await;
    refuse(site, number)?;
    Ok(((number + 3) % 997, format!("p{number}")))
}

/// A step that reads a counter.
pub async fn ticket(site: u64) -> Result<String, Fault> {
    pace(site, 1).await;
    let id = new_id(site);
    pace(site, 2).await;
    Ok(id)
}

/// A step whose error is used as a value.
pub async fn attempt(site: u64, number: i64) -> Result<i64, Fault> {
    pace(site, number as u64).await;
    if number.rem_euclid(3) == 0 {
        return Err(Fault::new(format!("attempt {site} of {number}")));
    }
    Ok((number + 5) % 997)
}

/// A step with an error type of the library.
pub async fn late(site: u64, number: i64) -> agentflow::Result<i64> {
    pace(site, number as u64).await;
    match number.rem_euclid(4) {
        0 => Err(agentflow::Error::Timeout { limit: Duration::from_secs(site) }),
        1 => Err(agentflow::Error::Lost { reason: format!("lost {number}") }),
        _ => Ok((number + 7) % 997),
    }
}

/// A step that takes a context.
pub async fn seen_by(cx: &Context, site: u64, number: i64) -> Result<String, Fault> {
    pace(site, number as u64).await;
    // Does not return the run id or the attempt, because they differ between runs and after a
    // crash.
    Ok(format!(
        "seen {number} in {}",
        if cx.run_id().as_str().is_empty() { "nothing" } else { "a run" }
    ))
}

/// A step of any type.
pub async fn echo<T: Clone + Send>(site: u64, value: T) -> Result<T, Fault> {
    pace(site, 3).await;
    Ok(value)
}

/// A step that shows a value of any type.
pub async fn show<T: fmt::Debug + Sync>(site: u64, value: &T) -> Result<String, Fault> {
    let shown = format!("{value:?}");
    pace(site, small(&shown)).await;
    Ok(stripped(&shown))
}

/// A helper of any type.
pub fn twice<T: Clone>(value: T) -> Vec<T> {
    vec![value.clone(), value]
}

/// A step that returns an untagged value.
pub async fn loosen(site: u64, number: i64) -> Result<Loose, Fault> {
    pace(site, number as u64).await;
    refuse(site, number)?;
    Ok(Loose::of(number))
}

/// A step with side effects that is not a tool; `#[node(write)]` declares the effects.
pub async fn store_away(site: u64, number: i64) -> Result<i64, Fault> {
    pace(site, number as u64).await;
    note(Act::Write, "store_away", site, number.to_string());
    pace(site, number as u64 + 1).await;
    Ok(number % 7)
}

// Tools that read.

/// Gets a thing.
#[tool(effects = "read")]
pub async fn fetch(site: u64, number: i64) -> Result<Item, String> {
    pace(site, number as u64).await;
    note(Act::Read, "fetch", site, number.to_string());
    if let Some(text) = refusal(site, number) {
        return Err(text);
    }
    Ok(Item {
        number: (number + 1) % 997,
        label: format!("item {number}"),
        tags: vec!["t".to_owned(); (number % 3) as usize],
    })
}

/// Finds a number.
#[tool(effects = "read")]
pub async fn lookup(site: u64, text: String) -> i64 {
    pace(site, small(&text)).await;
    note(Act::Read, "lookup", site, text.clone());
    text.len() as i64 % 50
}

/// A price.
#[tool(effects = "read")]
pub fn price(site: u64, number: i64) -> i64 {
    note(Act::Read, "price", site, number.to_string());
    (number * 3 + 2) % 500
}

// Tools that write.

/// Sends a mail.
#[tool]
pub async fn mail(site: u64, text: String) -> Result<(), Fault> {
    pace(site, small(&text)).await;
    refuse(site, text.len() as i64)?;
    note(Act::Write, "mail", site, text);
    pace(site, 0).await;
    Ok(())
}

/// Charges a card.
#[tool]
pub async fn charge(site: u64, card: i64, cents: i64) -> Result<String, String> {
    pace(site, cents as u64).await;
    if let Some(text) = refusal(site, cents) {
        return Err(text);
    }
    note(Act::Write, "charge", site, format!("{card}, {cents}"));
    pace(site, 0).await;
    Ok(format!("receipt of {cents}"))
}

/// Books a thing.
#[tool]
pub async fn book(site: u64, item: Item) -> i64 {
    pace(site, item.number as u64).await;
    note(Act::Write, "book", site, format!("{} {}", item.number, item.label));
    pace(site, 0).await;
    item.number % 10
}

/// Appends a line.
#[tool]
pub fn append(site: u64, text: String) -> i64 {
    let length = text.len() as i64 % 50;
    note(Act::Write, "append", site, text);
    length
}

/// Sets a value.
#[tool(idempotent)]
pub async fn upsert(site: u64, key: i64, text: String) -> Result<i64, Fault> {
    pace(site, key as u64).await;
    note(Act::Idempotent, "upsert", site, format!("{key} = {text}"));
    pace(site, 0).await;
    refuse(site, key)?;
    Ok(key + 1)
}

/// Sends a signal, whenever it suits.
#[tool]
pub async fn beacon(site: u64, number: i64) -> Result<(), Fault> {
    pace(site, number as u64).await;
    note(Act::Unordered, "beacon", site, number.to_string());
    Ok(())
}

/// Deletes a thing, with a person's word.
#[tool(approve)]
pub async fn wipe(site: u64, number: i64) -> Result<i64, Fault> {
    pace(site, number as u64).await;
    note(Act::Write, "wipe", site, number.to_string());
    pace(site, 0).await;
    Ok(number % 5)
}

/// Sets the rate, which helpers read.
#[tool(idempotent)]
pub async fn set_rate(site: u64, rate: i64) -> Result<i64, Fault> {
    pace(site, rate as u64).await;
    note(Act::Idempotent, "set_rate", site, rate.to_string());
    set_shared_rate(rate % 10);
    pace(site, 0).await;
    Ok(rate % 10)
}

/// A helper that reads the rate.
pub fn rated(number: i64) -> i64 {
    number * shared_rate() % 97
}

// Helpers: the tools are hidden in plain functions.

/// Sends a mail and charges a card.
pub async fn mail_and_charge(site: u64, text: String, cents: i64) -> Result<String, Fault> {
    mail(site * 1000 + 1, text).await?;
    Ok(charge(site * 1000 + 2, 1, cents).await?)
}

/// Sends a mail if the item's number is even.
pub async fn mail_if_even(site: u64, number: i64) -> Result<Option<i64>, Fault> {
    let item = fetch(site * 1000 + 1, number).await?;
    if item.number % 2 != 0 {
        return Ok(None);
    }
    mail(site * 1000 + 2, item.label.clone()).await?;
    Ok(Some(item.number))
}

/// Reads with a tool.
pub async fn look_up(site: u64, text: String) -> Result<i64, Fault> {
    pace(site, small(&text)).await;
    Ok(lookup(site * 1000 + 1, text).await)
}

/// Books with a tool that needs a person's approval.
pub async fn wipe_in_helper(site: u64, number: i64) -> Result<i64, Fault> {
    pace(site, number as u64).await;
    wipe(site * 1000 + 1, number).await
}

/// Sends a mail about a number.
pub async fn mail_number(site: u64, number: i64) -> Result<i64, Fault> {
    mail(site * 1000 + 1, format!("number {number}")).await?;
    Ok((number + 1) % 97)
}

/// Sends a mail about a value of any type.
pub async fn mailed<T: fmt::Debug + Send>(site: u64, value: T) -> Result<T, Fault> {
    mail(site * 1000 + 1, format!("{value:?}")).await?;
    Ok(value)
}

/// Sets the rate with a tool.
pub async fn turn(site: u64, rate: i64) -> Result<i64, Fault> {
    pace(site, rate as u64).await;
    set_rate(site * 1000 + 1, rate).await
}

/// Sends several mails.
pub async fn mail_all(site: u64, numbers: Vec<i64>) -> Result<usize, Fault> {
    for number in &numbers {
        mail(site * 1000 + 1, format!("to {number}")).await?;
    }
    Ok(numbers.len())
}

// Checks, and the person.

/// A recorded condition.
pub fn holds(site: u64, yes: bool) -> bool {
    note(Act::Check, "holds", site, yes.to_string());
    yes
}

/// A check that fails with an error.
pub fn check(site: u64, number: i64) -> Result<(), Fault> {
    note(Act::Check, "check", site, number.to_string());
    refuse(site, number)
}

/// Returns the person's answer to a question. It depends only on the question.
pub fn rule(question: &str) -> Approval {
    match stripped(question).bytes().map(u64::from).sum::<u64>() % 3 {
        0 => Approval::denied("no"),
        _ => Approval::granted(),
    }
}

/// Asks the person in the plain function.
pub async fn ask(question: String) -> Result<Approval, Fault> {
    let answer = rule(&question);
    note(Act::Gate, "gate", 0, question);
    Ok(answer)
}
