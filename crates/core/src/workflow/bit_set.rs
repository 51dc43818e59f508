//! Sets of small numbers, a bit for each, so that what is said of many at once is computed of 64 at a time. It knows nothing
//! of workflows.

use std::cmp::Ordering;

/// The bits of a word.
const WORD: usize = u64::BITS as usize;

/// A set of numbers. Sets that are compared have the same bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BitSet(Vec<u64>);

impl BitSet {
    /// Without any number, for those below a bound.
    pub(super) fn none(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(WORD)])
    }

    /// With all numbers below a bound.
    pub(super) fn all(bound: usize) -> Self {
        let mut words = vec![u64::MAX; bound.div_ceil(WORD)];
        let rest = bound % WORD;
        if let (Some(last), 1..) = (words.last_mut(), rest) {
            *last = (1 << rest) - 1;
        }
        Self(words)
    }

    /// With these numbers, of those below a bound.
    pub(super) fn of(bound: usize, numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::none(bound);
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }

    /// Adds a number, whatever the bound was.
    pub(super) fn insert(&mut self, number: usize) {
        if self.0.len() <= number / WORD {
            self.0.resize(number / WORD + 1, 0);
        }
        self.0[number / WORD] |= 1 << (number % WORD);
    }

    /// Removes a number.
    pub(super) fn take(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / WORD) {
            *word &= !(1 << (number % WORD));
        }
    }

    /// Has the numbers of another one from now on.
    pub(super) fn set(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        has(&self.0, number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The numbers, the smallest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        numbers(&self.0)
    }

    /// Whether all of it is in another one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        self.0.iter().zip(others).all(|(own, other)| own & !other == 0)
    }

    /// Adds the numbers of another one.
    pub(super) fn add(&mut self, other: &[u64]) {
        if self.0.len() < other.len() {
            self.0.resize(other.len(), 0);
        }
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own |= other);
    }

    /// Removes the numbers that are not in another one.
    pub(super) fn keep(&mut self, other: &[u64]) {
        self.0.truncate(other.len());
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own &= other);
    }

    /// Removes the numbers that are in another one.
    pub(super) fn remove(&mut self, other: &[u64]) {
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own &= !other);
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
}

impl FromIterator<usize> for BitSet {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        Self::of(0, numbers)
    }
}

impl Ord for BitSet {
    /// The order of two lists that say of each number whether it is in the set.
    fn cmp(&self, other: &Self) -> Ordering {
        let turned = |set: &Self| set.0.iter().map(|word| word.reverse_bits()).collect::<Vec<_>>();
        match self.0.iter().zip(&other.0).position(|(own, other)| own != other) {
            Some(at) => self.0[at].reverse_bits().cmp(&other.0[at].reverse_bits()),
            None => turned(self).cmp(&turned(other)),
        }
    }
}

impl PartialOrd for BitSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether a number is in a set.
pub(super) fn has(set: &[u64], number: usize) -> bool {
    set.get(number / WORD).is_some_and(|word| word & (1 << (number % WORD)) != 0)
}

/// The numbers of a set, the smallest first.
pub(super) fn numbers(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < WORD).then_some(at * WORD + bit)
        })
    })
}

/// A list of sets of numbers below one bound, in one piece of memory.
#[derive(Debug)]
pub(super) struct BitRows {
    words: usize,
    all: Vec<u64>,
}

impl BitRows {
    /// Room for so many sets of numbers below a bound.
    pub(super) fn new(rows: usize, bound: usize) -> Self {
        let words = bound.div_ceil(WORD);
        Self { words, all: Vec::with_capacity(rows * words) }
    }

    pub(super) fn push(&mut self, row: &[u64]) {
        let end = self.all.len() + self.words;
        self.all.extend_from_slice(row);
        self.all.resize(end, 0);
    }

    /// The set of a number; an empty one before anything was added.
    pub(super) fn row(&self, at: usize) -> &[u64] {
        self.all.get(at * self.words..(at + 1) * self.words).unwrap_or_default()
    }
}

/// How many sets of some have each number, for all numbers at once: a set for each binary digit of the counts.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<BitSet>);

impl Counts {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts one more for each number of a set.
    pub(super) fn add(&mut self, mut carry: BitSet) {
        for digit in &mut self.0 {
            if carry.is_empty() {
                return;
            }
            let next: Vec<u64> = digit.0.iter().zip(&carry.0).map(|(digit, carry)| digit & carry).collect();
            digit.0.iter_mut().zip(&carry.0).for_each(|(digit, carry)| *digit ^= carry);
            carry = BitSet(next);
        }
        if !carry.is_empty() {
            self.0.push(carry);
        }
    }

    /// Those of some numbers that are in so many sets at least.
    pub(super) fn at_least(&self, least: usize, of: &BitSet) -> BitSet {
        // From the highest digit: where the count is larger, and where it is the same so far.
        let (mut larger, mut same) = (BitSet(vec![0; of.0.len()]), of.clone());
        let none = BitSet(vec![0; of.0.len()]);
        let digits = self.0.len().max((usize::BITS - least.leading_zeros()) as usize);
        for at in (0..digits).rev() {
            let digit = self.0.get(at).unwrap_or(&none);
            if least & (1 << at) != 0 {
                same.keep(digit.words());
            } else {
                let mut more = same.clone();
                more.keep(digit.words());
                larger.add(more.words());
                same.remove(digit.words());
            }
        }
        larger.add(same.words());
        larger
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lists() -> impl Strategy<Value = Vec<Vec<bool>>> {
        (1_usize..150).prop_flat_map(|bound| prop::collection::vec(prop::collection::vec(any::<bool>(), bound), 1..12))
    }

    fn set(list: &[bool]) -> BitSet {
        BitSet::of(list.len(), (0..list.len()).filter(|at| list[*at]))
    }

    proptest! {
        #[test]
        fn sets_are_lists_that_say_of_each_number_whether_it_is_there(lists in lists()) {
            let (one, bound) = (&lists[0], lists[0].len());
            let same = |set: &BitSet, is: &dyn Fn(usize) -> bool| {
                (0..bound + 70).all(|at| set.contains(at) == (at < bound && is(at)))
                    && set.iter().eq((0..bound).filter(|at| is(*at)))
                    && set.len() == (0..bound).filter(|at| is(*at)).count()
            };
            prop_assert!(same(&set(one), &|at| one[at]));
            prop_assert!(same(&BitSet::all(bound), &|_| true));
            let mut rows = BitRows::new(0, bound);
            lists.iter().for_each(|list| rows.push(set(list).words()));
            for (at, other) in lists.iter().enumerate() {
                let changed = |change: fn(&mut BitSet, &[u64])| {
                    let mut changed = set(one);
                    change(&mut changed, rows.row(at));
                    changed
                };
                prop_assert!(same(&changed(BitSet::add), &|at| one[at] || other[at]));
                prop_assert!(same(&changed(BitSet::keep), &|at| one[at] && other[at]));
                prop_assert!(same(&changed(BitSet::remove), &|at| one[at] && !other[at]));
                prop_assert_eq!(set(one).cmp(&set(other)), one.cmp(other));
                prop_assert_eq!(set(one).is_within(&set(other)), one.iter().zip(other).all(|(one, other)| one <= other));
            }
            let mut counts = Counts::default();
            lists.iter().for_each(|list| counts.add(set(list)));
            for least in 0..=lists.len() + 1 {
                let many = counts.at_least(least, &BitSet::all(bound));
                prop_assert!(same(&many, &|at| lists.iter().filter(|list| list[at]).count() >= least));
            }
        }
    }
}
