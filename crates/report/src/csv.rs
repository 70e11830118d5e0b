//! Measurements as comma-separated values: a line for each number. It must not know which document
//! they are from.

use std::fmt::Write as _;

use freehold_model::Series;

/// All series, one line for each number, under a line of names.
pub fn csv(series: &[Series]) -> String {
    let mut text = "case,allocator,measure,unit,round,value\n".to_owned();
    for Series { case, allocator, measure, values } in series {
        let (case, allocator) = (field(case), field(allocator));
        for (round, value) in values {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{case},{allocator},{},{},{round},{value}",
                measure.name,
                measure.unit.as_str()
            );
        }
    }
    text
}

/// A field, in quotation marks where it would be misread without.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use freehold_model::Measure;

    use super::*;

    #[test]
    fn each_number_is_a_line_and_names_are_quoted_where_they_must_be() {
        let measure = Measure::named("rss.peak").expect("a measure");
        let values = vec![(0, 4096.0), (2, 1e9)];
        let series = Series { case: "a=1,2".into(), allocator: "je\"x".into(), measure, values };
        assert_eq!(
            csv(&[series]),
            "case,allocator,measure,unit,round,value\n\
             \"a=1,2\",\"je\"\"x\",rss.peak,B,0,4096\n\
             \"a=1,2\",\"je\"\"x\",rss.peak,B,2,1000000000\n"
        );
    }
}
