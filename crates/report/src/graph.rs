//! The call graph as a picture: in the language of Graphviz, and drawn.
//!
//! In: an [`ReportImage`]. Out: DOT, or SVG with the functions in rows, callers above callees. An
//! indirect call leads through the prototype. Guaranteed: the drawing takes time linear in
//! functions and calls times a small number of sweeps; a graph too large to be readable is not
//! drawn.

use std::collections::HashMap;
use std::fmt::Write;

use crate::data::ReportImage;
use crate::text::clipped;

/// The most boxes of a drawing.
const MOST_BOXES: usize = 2000;
/// The most lines of a drawing.
const MOST_LINES: usize = 8000;
/// Characters of a label.
const LABEL: usize = 48;
/// The number of times that the boxes of each row are sorted by their neighbours.
const SWEEPS: usize = 8;

/// Width of a character, height of a box, and the gaps, in units of SVG.
const CHAR: usize = 7;
const HEIGHT: usize = 24;
const GAP: usize = 16;
const ROW: usize = 72;

/// A call graph that is too large to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{boxes} functions and {lines} calls are too many to draw; a .dot file takes any number")]
pub struct TooLarge {
    boxes: usize,
    lines: usize,
}

/// A vertex: a function, or a prototype behind all functions.
struct Graph<'a> {
    labels: Vec<String>,
    kernels: Vec<bool>,
    functions: usize,
    image: &'a ReportImage,
    edges: Vec<(usize, usize)>,
}

impl<'a> Graph<'a> {
    fn of(image: &'a ReportImage) -> Self {
        let functions = image.functions.len();
        let label = |text: &str| culd_text::escaped(text).into_owned();
        let names = image.functions.iter().map(|function| label(function.shown()));
        let prototypes = image.prototypes.iter().map(|one| label(&one.text));
        let labels: Vec<String> = names.chain(prototypes).collect();
        let mut edges = Vec::new();
        for (place, function) in image.functions.iter().enumerate() {
            edges.extend(function.calls.iter().map(|&callee| (place, callee)));
            edges.extend(function.indirect.iter().map(|&prototype| (place, functions + prototype)));
        }
        for (place, prototype) in image.prototypes.iter().enumerate() {
            edges.extend(prototype.functions.iter().map(|&callee| (functions + place, callee)));
        }
        edges.retain(|&(from, to)| from < labels.len() && to < labels.len());
        edges.sort_unstable();
        edges.dedup();
        let kernel = |place: usize| {
            image.functions.get(place).is_some_and(|function| function.kernel.is_some())
        };
        let kernels = (0..labels.len()).map(kernel).collect();
        Graph { labels, kernels, functions, image, edges }
    }
}

impl ReportImage {
    /// The call graph in the language of Graphviz.
    pub fn to_dot(&self) -> String {
        let graph = Graph::of(self);
        let mut text = String::from(
            "digraph calls {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n",
        );
        for (place, label) in graph.labels.iter().enumerate() {
            let label = dot(label);
            let form = match () {
                () if place >= graph.functions => ", shape=diamond",
                () if graph.kernels[place] => ", style=bold, shape=box3d",
                () if graph.image.functions[place].section.is_none() => ", style=dashed",
                () => "",
            };
            let _ = writeln!(text, "  n{place} [label=\"{label}\"{form}];");
        }
        for &(from, to) in &graph.edges {
            let indirect = from >= graph.functions || to >= graph.functions;
            let form = if indirect { " [style=dashed]" } else { "" };
            let _ = writeln!(text, "  n{from} -> n{to}{form};");
        }
        text.push_str("}\n");
        text
    }

    /// The call graph as a drawing.
    ///
    /// # Errors
    /// It is too large to be looked at.
    pub fn to_svg(&self) -> Result<String, TooLarge> {
        let graph = Graph::of(self);
        let (boxes, lines) = (graph.labels.len(), graph.edges.len());
        if boxes > MOST_BOXES || lines > MOST_LINES {
            return Err(TooLarge { boxes, lines });
        }
        Ok(draw(&graph))
    }
}

/// A text inside the quotes of DOT.
fn dot(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A text in SVG.
fn svg(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The row of each vertex: below all its callers, calls inside a circle aside.
fn rows(graph: &Graph<'_>) -> Vec<usize> {
    let count = graph.labels.len();
    let mut callees = vec![Vec::new(); count];
    for &(from, to) in graph.edges.iter().filter(|(from, to)| from != to) {
        callees[from].push(to);
    }
    // Depth first, callees before callers; a call to a vertex on the way up closes a circle.
    let (mut order, mut state) = (Vec::with_capacity(count), vec![0u8; count]);
    let mut closes = std::collections::HashSet::new();
    let kernels = (0..count).filter(|&place| graph.kernels[place]);
    for start in kernels.chain(0..count) {
        let mut stack = vec![(start, 0)];
        while let Some((place, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut state[place], 1) != 0 {
                continue;
            }
            match callees[place].get(next) {
                Some(&callee) => {
                    stack.push((place, next + 1));
                    match state[callee] {
                        0 => stack.push((callee, 0)),
                        1 => _ = closes.insert((place, callee)),
                        _ => {}
                    }
                }
                None => {
                    state[place] = 2;
                    order.push(place);
                }
            }
        }
    }
    let mut rows = vec![0; count];
    for &place in order.iter().rev() {
        for &callee in &callees[place] {
            if !closes.contains(&(place, callee)) {
                rows[callee] = rows[callee].max(rows[place] + 1);
            }
        }
    }
    rows
}

/// The boxes of each row from left to right, sorted by where their neighbours are.
fn sorted_rows(graph: &Graph<'_>) -> Vec<Vec<usize>> {
    let row_of = rows(graph);
    let mut rows = vec![Vec::new(); row_of.iter().max().map_or(0, |last| last + 1)];
    for (place, &row) in row_of.iter().enumerate() {
        rows[row].push(place);
    }
    let mut neighbours = vec![Vec::new(); row_of.len()];
    for &(from, to) in &graph.edges {
        neighbours[from].push(to);
        neighbours[to].push(from);
    }
    let mut at: Vec<f64> = vec![0.0; row_of.len()];
    let number = |row: &[usize], at: &mut Vec<f64>| {
        let middle = row.len() as f64 / 2.0;
        row.iter().enumerate().for_each(|(n, &place)| at[place] = n as f64 - middle);
    };
    rows.iter().for_each(|row| number(row, &mut at));
    for sweep in 0..SWEEPS {
        let places: Vec<usize> = match sweep % 2 {
            0 => (0..rows.len()).collect(),
            _ => (0..rows.len()).rev().collect(),
        };
        for row in places {
            let above = |place: usize, other: usize| match sweep % 2 {
                0 => row_of[other] < row_of[place],
                _ => row_of[other] > row_of[place],
            };
            let weight = |&place: &usize| {
                let own = neighbours[place].iter().filter(|&&other| above(place, other));
                let (sum, count) =
                    own.fold((0.0, 0), |(sum, count), &other| (sum + at[other], count + 1));
                if count == 0 { at[place] } else { sum / f64::from(count) }
            };
            let mut weighed: Vec<(f64, usize)> =
                rows[row].iter().map(|place| (weight(place), *place)).collect();
            weighed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            rows[row] = weighed.into_iter().map(|(_, place)| place).collect();
            number(&rows[row], &mut at);
        }
    }
    rows
}

fn draw(graph: &Graph<'_>) -> String {
    let label = |place: usize| clipped(&graph.labels[place], LABEL).into_owned();
    let width = |place: usize| CHAR * label(place).chars().count() + 16;
    let rows = sorted_rows(graph);
    let row_width = |row: &Vec<usize>| row.iter().map(|&place| width(place) + GAP).sum::<usize>();
    let total = rows.iter().map(row_width).max().unwrap_or(0) + GAP;
    let mut boxes: HashMap<usize, (usize, usize, usize)> = HashMap::new();
    for (number, row) in rows.iter().enumerate() {
        let mut x = (total - row_width(row)) / 2;
        for &place in row {
            boxes.insert(place, (x, GAP + number * ROW, width(place)));
            x += width(place) + GAP;
        }
    }
    let height = rows.len() * ROW + GAP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total} {height}\" width=\"{total}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\" role=\"img\">\n\
         <title>Call graph</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><polygon points=\"0,1 8,4 0,7\" fill=\"#57606a\"/></marker>\n\
         <g fill=\"none\" stroke=\"#57606a\" marker-end=\"url(#end)\">\n"
    );
    let dashes = |from, to| match from >= graph.functions || to >= graph.functions {
        true => " stroke-dasharray=\"4 3\"",
        false => "",
    };
    for &(from, to) in &graph.edges {
        let ((x1, y1, w1), (x2, y2, w2)) = (boxes[&from], boxes[&to]);
        if y2 <= y1 {
            // To one that is not below, on the right side: boxes would hide a line between them.
            let (from_side, to_side) = (x1 + w1, x2 + w2);
            let gaps = if from == to { 1 } else { 2 };
            let far = from_side.max(to_side) + gaps * GAP;
            let (out, back) = (y1 + HEIGHT / 4, y2 + 3 * HEIGHT / 4);
            let _ = writeln!(
                text,
                "<path d=\"M{from_side} {out}C{far} {out} {far} {back} {to_side} {back}\"{}/>",
                dashes(from, to)
            );
            continue;
        }
        let (x1, x2) = (x1 + w1 / 2, x2 + w2 / 2);
        let (start, end) = (y1 + HEIGHT, y2);
        let bend = ROW / 2;
        let (c1, c2) = (start + bend, end.saturating_sub(bend));
        let _ = writeln!(
            text,
            "<path d=\"M{x1} {start}C{x1} {c1} {x2} {c2} {x2} {end}\"{}/>",
            dashes(from, to)
        );
    }
    text.push_str("</g>\n");
    for place in 0..graph.labels.len() {
        let (x, y, width) = boxes[&place];
        let fill = match () {
            () if place >= graph.functions => "#f6f8fa",
            () if graph.kernels[place] => "#ddf4ff",
            () => "#ffffff",
        };
        let round = if place >= graph.functions { HEIGHT / 2 } else { 3 };
        let _ = writeln!(
            text,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" \
             rx=\"{round}\" fill=\"{fill}\" stroke=\"#1b1f24\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
            svg(&graph.labels[place]),
            x + 8,
            y + 16,
            svg(&label(place))
        );
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ReportFunction, ReportPrototype};

    fn image(count: usize, calls: &[(usize, usize)]) -> ReportImage {
        let function = |place: usize| ReportFunction {
            name: format!("f<{place}>\"\\"),
            calls: calls.iter().filter(|call| call.0 == place).map(|call| call.1).collect(),
            section: Some(0),
            kernel: (place == 0).then(Box::default),
            ..ReportFunction::default()
        };
        ReportImage { functions: (0..count).map(function).collect(), ..ReportImage::default() }
    }

    #[test]
    fn callers_are_above_callees_and_circles_end() {
        let image = image(5, &[(0, 1), (1, 2), (2, 1), (0, 2), (3, 3), (2, 4)]);
        assert_eq!(rows(&Graph::of(&image)), [0, 1, 2, 0, 3]);
        let svg = image.to_svg().unwrap();
        assert_eq!(svg.matches("<path").count(), 6);
        // One that calls itself, and one that calls its caller, have lines at their sides, where
        // boxes do not hide them.
        for side in [
            "<path d=\"M140 22C156 22 156 34 140 34\"",
            "<path d=\"M103 166C135 166 135 106 103 106\"",
        ] {
            assert!(svg.contains(side), "{svg}");
        }
        assert!(svg.contains("f&lt;4&gt;&quot;\\") && !svg.contains("f<"));
    }

    #[test]
    fn dot_has_every_vertex_and_edge() {
        let mut image = image(2, &[(0, 1)]);
        image.prototypes = vec![ReportPrototype { text: "#vi".to_owned(), functions: vec![1] }];
        image.functions[0].indirect = vec![0];
        let dot = image.to_dot();
        assert!(dot.contains("n0 [label=\"f<0>\\\"\\\\\""), "{dot}");
        for edge in ["n0 -> n1;", "n0 -> n2 [style=dashed];", "n2 -> n1 [style=dashed];"] {
            assert!(dot.contains(edge), "{dot}");
        }
    }

    #[test]
    fn what_is_too_large_is_not_drawn() {
        let image = image(MOST_BOXES + 1, &[]);
        assert!(image.to_svg().is_err() && image.to_dot().contains("n2000 ["));
        // A deep chain takes no stack.
        let chain: Vec<(usize, usize)> = (0..MOST_BOXES - 1).map(|at| (at, at + 1)).collect();
        assert!(super::tests::image(MOST_BOXES, &chain).to_svg().is_ok());
    }
}
