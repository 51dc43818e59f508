//! Finds the edges that close cycles.

/// Returns for each edge `true` if it closes a cycle: it leads to a node from which the search has
/// come. Without these edges the graph has no cycle. The search follows the order of the nodes, so
/// edges against this order are preferred.
pub(crate) fn closing_edges(nodes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (index, (from, _)) in edges.iter().enumerate() {
        leaving[*from].push(index);
    }
    let mut closing = vec![false; edges.len()];
    let mut marks = vec![Mark::New; nodes];
    // Nodes on the path of the search with the number of edges that were followed. Not recursive,
    // because a chain can be as long as the graph.
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..nodes {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        path.push((start, 0));
        while let Some((node, followed)) = path.last_mut() {
            let Some(edge) = leaving[*node].get(*followed).copied() else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            *followed += 1;
            let to = edges[edge].1;
            match marks[to] {
                Mark::New => {
                    marks[to] = Mark::Open;
                    path.push((to, 0));
                }
                Mark::Open => closing[edge] = true,
                Mark::Done => {}
            }
        }
    }
    closing
}

#[cfg(test)]
mod tests {
    use super::closing_edges;

    #[test]
    fn the_edge_back_closes_the_cycle() {
        let closing = closing_edges(3, &[(0, 1), (1, 2), (2, 0), (0, 2)]);
        assert_eq!(closing, [false, false, true, false]);
    }

    #[test]
    fn a_loop_closes_itself() {
        assert_eq!(closing_edges(1, &[(0, 0)]), [true]);
    }
}
