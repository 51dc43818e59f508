//! Curves of edges: straight in the layers, with smooth bends between them.

use crate::layered::Station;
use crate::placed::DiagramPoint;

/// A curve along the main axis. The `x` of its points is the position along the main axis.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    points: Vec<DiagramPoint>,
}

impl Curve {
    /// Continues the curve through a straight part.
    pub(crate) fn pass(&mut self, station: Station) {
        let start = DiagramPoint::new(station.start, station.cross);
        match self.points.last().copied() {
            None => self.points.push(start),
            Some(last) if last.y == start.y => self.line_to(start),
            Some(last) => {
                let middle = (last.x + start.x) / 2.0;
                self.points.push(DiagramPoint::new(middle, last.y));
                self.points.push(DiagramPoint::new(middle, start.y));
                self.points.push(start);
            }
        }
        self.line_to(DiagramPoint::new(station.end, station.cross));
    }

    /// Adds a straight line, or extends the one before.
    fn line_to(&mut self, to: DiagramPoint) {
        let Some(last) = self.points.last().copied() else { return };
        if last.x == to.x {
            return;
        }
        let mut from = last;
        if let [.., before, first, second, _] = self.points[..]
            && before.y == last.y
            && first.y == last.y
            && second.y == last.y
        {
            self.points.truncate(self.points.len() - 3);
            from = before;
        }
        let middle = DiagramPoint::new((from.x + to.x) / 2.0, to.y);
        self.points.extend([middle, middle, to]);
    }

    /// Returns the points, in the order in which the edge is drawn.
    pub(crate) fn finish(mut self, is_backward: bool) -> Vec<DiagramPoint> {
        // Two boxes never touch, but a curve must have an end also without any length.
        if let [only] = self.points[..] {
            self.points.extend([only; 3]);
        }
        if is_backward {
            self.points.reverse();
        }
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(start: f64, end: f64, cross: f64) -> Station {
        Station { start, end, cross }
    }

    #[test]
    fn straight_parts_become_one_line() {
        let mut curve = Curve::default();
        curve.pass(station(0.0, 10.0, 5.0));
        curve.pass(station(40.0, 50.0, 5.0));
        let points = curve.finish(false);
        let ends = [points[0], points[3]];
        assert_eq!(ends, [DiagramPoint::new(0.0, 5.0), DiagramPoint::new(50.0, 5.0)]);
        assert_eq!(points.len(), 4);
    }

    #[test]
    fn a_bend_starts_and_ends_along_the_main_axis() {
        let mut curve = Curve::default();
        curve.pass(station(0.0, 0.0, 0.0));
        curve.pass(station(40.0, 40.0, 30.0));
        let points = curve.finish(true);
        let expected = [(40.0, 30.0), (20.0, 30.0), (20.0, 0.0), (0.0, 0.0)];
        assert_eq!(points, expected.map(|(x, y)| DiagramPoint::new(x, y)));
    }
}
