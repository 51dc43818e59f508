//! Bit sets, counters and rows of bits. Operations on many numbers work on 64 of them at a time.

use std::cmp::Ordering;

/// Number of bits in a word.
const WORD: usize = u64::BITS as usize;

/// A set of small numbers. Sets must have the same bound to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BitSet(Vec<u64>);

impl BitSet {
    /// Creates an empty set for numbers below a bound.
    pub(super) fn none(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(WORD)])
    }

    /// Creates the set of all numbers below a bound.
    pub(super) fn all(bound: usize) -> Self {
        let mut words = vec![u64::MAX; bound.div_ceil(WORD)];
        let rest = bound % WORD;
        if let (Some(last), 1..) = (words.last_mut(), rest) {
            *last = (1 << rest) - 1;
        }
        Self(words)
    }

    /// Creates a set of the given numbers, for numbers below a bound.
    pub(super) fn from_numbers(bound: usize, numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::none(bound);
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }

    /// Adds a number. Extends the bound if necessary.
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

    /// Replaces the content with a copy of another set, reusing the memory.
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

    /// Iterates over the numbers in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        numbers(&self.0)
    }

    /// Returns `true` if the set is a subset of another one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        self.0.iter().zip(others).all(|(own, other)| own & !other == 0)
    }

    /// Adds the numbers of another set.
    pub(super) fn add(&mut self, other: &[u64]) {
        if self.0.len() < other.len() {
            self.0.resize(other.len(), 0);
        }
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own |= other);
    }

    /// Removes the numbers that are not in another set.
    pub(super) fn keep(&mut self, other: &[u64]) {
        self.0.truncate(other.len());
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own &= other);
    }

    /// Removes the numbers that are in another set.
    pub(super) fn remove(&mut self, other: &[u64]) {
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own &= !other);
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
}

impl FromIterator<usize> for BitSet {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        Self::from_numbers(0, numbers)
    }
}

impl Ord for BitSet {
    /// Compares the sets like lists of booleans, one per number.
    fn cmp(&self, other: &Self) -> Ordering {
        // The smallest number is the most significant, so the bits are compared in reverse.
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

/// Returns `true` if the set contains a number.
pub(super) fn has(set: &[u64], number: usize) -> bool {
    set.get(number / WORD).is_some_and(|word| word & (1 << (number % WORD)) != 0)
}

/// Iterates over the numbers of a set in ascending order.
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

/// A list of sets with a common bound, in one allocation.
#[derive(Debug)]
pub(super) struct BitRows {
    words: usize,
    all: Vec<u64>,
}

impl BitRows {
    /// Creates an empty list with capacity for `rows` sets of numbers below `bound`.
    pub(super) fn new(rows: usize, bound: usize) -> Self {
        let words = bound.div_ceil(WORD);
        Self { words, all: Vec::with_capacity(rows * words) }
    }

    pub(super) fn push(&mut self, row: &[u64]) {
        let end = self.all.len() + self.words;
        self.all.extend_from_slice(row);
        self.all.resize(end, 0);
    }

    /// Returns the set at an index. An index beyond the end gives an empty set.
    pub(super) fn row(&self, at: usize) -> &[u64] {
        self.all.get(at * self.words..(at + 1) * self.words).unwrap_or_default()
    }
}

/// Counters for many numbers at once: in how many sets each number is. Stored as one bit set per
/// binary digit.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<BitSet>);

impl Counts {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Increments the counter of each number in a set.
    pub(super) fn add(&mut self, mut carry: BitSet) {
        // A ripple-carry adder over bit sets: `carry` holds the numbers whose lower digits
        // overflowed.
        for digit in &mut self.0 {
            if carry.is_empty() {
                return;
            }
            let next: Vec<u64> =
                digit.0.iter().zip(&carry.0).map(|(digit, carry)| digit & carry).collect();
            digit.0.iter_mut().zip(&carry.0).for_each(|(digit, carry)| *digit ^= carry);
            carry = BitSet(next);
        }
        if !carry.is_empty() {
            self.0.push(carry);
        }
    }

    /// Returns the numbers of `of` whose counter is `least` or more.
    pub(super) fn at_least(&self, least: usize, of: &BitSet) -> BitSet {
        // Compares from the highest digit down: `larger` is decided already, `same` is equal so
        // far.
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
        (1_usize..150).prop_flat_map(|bound| {
            prop::collection::vec(prop::collection::vec(any::<bool>(), bound), 1..12)
        })
    }

    fn set(list: &[bool]) -> BitSet {
        BitSet::from_numbers(list.len(), (0..list.len()).filter(|at| list[*at]))
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
