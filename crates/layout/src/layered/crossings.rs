//! Counts the crossings of links.

/// Counts the crossings between two layers from the places of the links' ends. Changes the order of
/// the links.
pub(super) fn count_crossings(links: &mut [(u64, u64)]) -> u64 {
    links.sort_unstable();
    // Numbers the different ends from 0.
    let mut ends: Vec<u64> = links.iter().map(|(_, end)| *end).collect();
    ends.sort_unstable();
    ends.dedup();
    // A Fenwick tree with the number of links at each end.
    let mut tree = vec![0_u64; ends.len() + 1];
    let mut crossings = 0;
    for (seen, (_, end)) in links.iter().enumerate() {
        let end = ends.partition_point(|other| other < end) + 1;
        let mut not_beyond = 0;
        let mut at = end;
        while at > 0 {
            not_beyond += tree[at];
            at &= at - 1;
        }
        crossings += seen as u64 - not_beyond;
        let mut at = end;
        while at < tree.len() {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    crossings
}

/// Counts the crossings of the links of two neighbours in a layer: with the first one before the
/// second one, and in the other order. Both lists are sorted.
pub(super) fn crossings_of_neighbours(first: &[u64], second: &[u64]) -> (u64, u64) {
    let (mut as_is, mut swapped) = (0, 0);
    let (mut less, mut not_more) = (0, 0);
    for place in first {
        while less < second.len() && second[less] < *place {
            less += 1;
        }
        while not_more < second.len() && second[not_more] <= *place {
            not_more += 1;
        }
        as_is += less as u64;
        swapped += (second.len() - not_more) as u64;
    }
    (as_is, swapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_are_counted() {
        assert_eq!(count_crossings(&mut [(0, 1), (1, 0)]), 1);
        assert_eq!(count_crossings(&mut [(0, 0), (0, 1), (1, 0), (1, 1)]), 1);
        assert_eq!(count_crossings(&mut [(0, 2), (1, 1), (2, 0)]), 3);
        assert_eq!(count_crossings(&mut [(0, 0), (1, 0)]), 0);
    }

    #[test]
    fn crossings_of_two_neighbours_are_counted_in_both_orders() {
        assert_eq!(crossings_of_neighbours(&[1, 2], &[0, 2]), (2, 1));
        assert_eq!(crossings_of_neighbours(&[0], &[0]), (0, 0));
    }
}
