//! Evaluates queries over the pages that were read from pods.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Aggregation, Expression, Grouping, Operator, QueryError, Selector, Value};

/// The most readings that are kept. The oldest are dropped first.
const MAX_READINGS: usize = 512;

/// The labels of a series.
pub type Labels = BTreeMap<String, String>;

/// A series at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name of the metric.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// The value at this moment.
    pub value: f64,
}

/// The readings of the last minutes, the newest last. Their times count from any moment that stays the same.
#[derive(Debug, Default)]
pub struct History(VecDeque<(Duration, Vec<Sample>)>);

// === impl History ===

impl History {
    /// Adds a reading, and drops those that are older than `window`.
    pub fn add(&mut self, now: Duration, reading: Vec<Sample>, window: Duration) {
        self.0.push_back((now, reading));
        while self.0.len() > MAX_READINGS
            || self.0.front().is_some_and(|(at, _)| now.saturating_sub(*at) > window)
        {
            self.0.pop_front();
        }
    }

    fn newest(&self) -> &[Sample] {
        self.0.back().map_or(&[], |(_, samples)| samples)
    }
}

/// A series without a name.
type Series = (Labels, f64);

enum QueryResult {
    Scalar(f64),
    Vector(Vec<Series>),
}

pub(super) fn single(expression: &Expression, history: &History) -> Result<Option<f64>, QueryError> {
    match evaluate(expression, history)? {
        QueryResult::Scalar(number) => Ok(Some(number)),
        QueryResult::Vector(series) => match &series[..] {
            [] => Ok(None),
            [(_, value)] => Ok(Some(*value)),
            several => Err(QueryError::SeveralSeries(several.len())),
        },
    }
}

fn evaluate(expression: &Expression, history: &History) -> Result<QueryResult, QueryError> {
    Ok(match expression {
        Expression::Number(number) => QueryResult::Scalar(*number),
        Expression::Vector(of) => QueryResult::Vector(match single(of, history)? {
            Some(number) => vec![(Labels::new(), number)],
            None => Vec::new(),
        }),
        Expression::Select(selector) => {
            let found = select(selector, history.newest());
            QueryResult::Vector(found.map(|sample| (sample.labels.clone(), sample.value)).collect())
        }
        Expression::Growth { selector, window, per_second } => {
            QueryResult::Vector(growth(selector, *window, *per_second, history))
        }
        Expression::Aggregate { by, grouping, of } => QueryResult::Vector(match evaluate(of, history)? {
            QueryResult::Scalar(number) => vec![(Labels::new(), number)],
            QueryResult::Vector(series) => aggregate(*by, grouping.as_ref(), series),
        }),
        Expression::Binary(Operator::Or, sides) => match evaluate(&sides[0], history)? {
            QueryResult::Vector(left) if left.is_empty() => evaluate(&sides[1], history)?,
            left => left,
        },
        Expression::Binary(operator, sides) => {
            let [left, right] = [single(&sides[0], history)?, single(&sides[1], history)?];
            let result = left.zip(right).map(|(left, right)| match operator {
                // `or` was handled above.
                Operator::Add | Operator::Or => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                Operator::Divide => left / right,
            });
            QueryResult::Vector(result.map(|number| (Labels::new(), number)).into_iter().collect())
        }
    })
}

/// The series of a reading that match. Prometheus adds labels of its own configuration, such as `job`. Nothing adds them
/// here, so a label that no series of the metric has is no condition.
fn select<'a>(selector: &'a Selector, reading: &'a [Sample]) -> impl Iterator<Item = &'a Sample> {
    let named = || reading.iter().filter(|sample| sample.name == selector.name);
    let known: Vec<_> = selector
        .matchers
        .iter()
        .filter(|matcher| named().any(|sample| sample.labels.contains_key(&matcher.label)))
        .collect();
    named().filter(move |sample| {
        known.iter().all(|matcher| {
            let value = sample.labels.get(&matcher.label).map_or("", String::as_str);
            let has = match &matcher.value {
                Value::Equal(expected) => value == expected,
                Value::Regex(regex) => regex.is_match(value),
            };
            has != matcher.negated
        })
    })
}

/// How much each counter has grown within the window. A counter that became smaller began again at zero.
fn growth(selector: &Selector, window: Duration, per_second: bool, history: &History) -> Vec<Series> {
    let Some((now, _)) = history.0.back() else { return Vec::new() };
    let within = history.0.iter().filter(|(at, _)| now.saturating_sub(*at) <= window);
    let mut points: BTreeMap<&Labels, Vec<(Duration, f64)>> = BTreeMap::new();
    for (at, reading) in within {
        for sample in select(selector, reading) {
            points.entry(&sample.labels).or_default().push((*at, sample.value));
        }
    }
    let grown = points.into_iter().filter_map(|(labels, points)| {
        let (first, last) = (points.first()?, points.last()?);
        let seconds = last.0.saturating_sub(first.0).as_secs_f64();
        let steps = points.windows(2).map(|pair| match pair {
            [(_, before), (_, after)] if after >= before => after - before,
            [_, (_, after)] => *after,
            _ => 0.0,
        });
        let grown: f64 = steps.sum();
        (seconds > 0.0).then(|| (labels.clone(), if per_second { grown / seconds } else { grown }))
    });
    grown.collect()
}

fn aggregate(by: Aggregation, grouping: Option<&Grouping>, series: Vec<Series>) -> Vec<Series> {
    let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
    for (mut labels, value) in series {
        labels.retain(|label, _| {
            grouping.is_some_and(|grouping| grouping.labels.contains(label) != grouping.excluded)
        });
        groups.entry(labels).or_default().push(value);
    }
    let result = groups.into_iter().map(|(labels, values)| {
        let sum: f64 = values.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "there are few series")]
        let count = values.len() as f64;
        let value = match by {
            Aggregation::Sum => sum,
            Aggregation::Average => sum / count,
            Aggregation::Least => values.into_iter().fold(f64::INFINITY, f64::min),
            Aggregation::Most => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
            Aggregation::Count => count,
        };
        (labels, value)
    });
    result.collect()
}

#[cfg(test)]
mod tests {
    use super::super::Query;
    use super::*;

    fn sample(name: &str, labels: &[(&str, &str)], value: f64) -> Sample {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Sample { name: name.to_owned(), labels, value }
    }

    fn running(values: &[(&str, f64)]) -> History {
        let reading = values.iter().map(|(pod, value)| {
            sample(
                "vllm:num_requests_running",
                &[("pod", pod), ("model_name", "m"), ("namespace", "ns")],
                *value,
            )
        });
        let mut history = History::default();
        history.add(Duration::ZERO, reading.collect(), Duration::ZERO);
        history
    }

    fn ask(query: &str, history: &History) -> Result<Option<f64>, QueryError> {
        Query::parse(query).and_then(|query| query.evaluate(history))
    }

    #[test]
    fn gauges_are_selected_aggregated_and_calculated_with() {
        let history = running(&[("a-1", 3.0), ("a-2", 5.0), ("b-1", 10.0)]);
        for (query, expected) in [
            ("avg(vllm:num_requests_running)", 6.0),
            ("sum(vllm:num_requests_running{namespace=\"ns\", pod=~'a-.*'})", 8.0),
            ("max by (model_name) (vllm:num_requests_running{pod!~\"b.*\"})", 5.0),
            ("count(vllm:num_requests_running{pod!='b-1'}) without (pod)", 2.0),
            ("min(vllm:num_requests_running) * 2 + 10 / 4 - (1)", 7.5),
            // Prometheus would add these labels.
            ("sum(vllm:num_requests_running{job=\"kserve\", service=\"x\"})", 18.0),
            ("sum(vllm:num_requests_waiting) or vector(0)", 0.0),
            ("(sum(absent{pool=\"p\"}) or vector(0)) + (sum(vllm:num_requests_running) or vector(0))", 18.0),
        ] {
            assert_eq!(ask(query, &history), Ok(Some(expected)), "{query}");
        }
        assert_eq!(ask("sum(absent)", &history), Ok(None));
        assert_eq!(ask("vllm:num_requests_running", &history), Err(QueryError::SeveralSeries(3)));
    }

    #[test]
    fn rates_come_from_the_readings_of_the_window_and_survive_a_restart() {
        let mut history = History::default();
        for (second, value) in [(0, 100.0), (10, 120.0), (20, 5.0), (30, 25.0)] {
            let reading = vec![sample("requests_total", &[("pod", "a")], value)];
            history.add(Duration::from_secs(second), reading, Duration::from_mins(1));
        }
        assert_eq!(ask("sum(rate(requests_total[20s]))", &history), Ok(Some(25.0 / 20.0)));
        assert_eq!(ask("sum(increase(requests_total[1m]))", &history), Ok(Some(45.0)));
        assert_eq!(ask("sum(rate(requests_total[5s]))", &history), Ok(None), "one reading has no rate");
        history.add(Duration::from_mins(2), Vec::new(), Duration::from_mins(1));
        assert_eq!(history.0.len(), 1);
    }

    #[test]
    fn a_query_that_is_not_supported_is_refused_at_the_place() {
        for (query, at) in [
            ("histogram_quantile(0.9, x)", 1),
            ("sum(x", 6),
            ("x{a}", 4),
            ("x > 1", 3),
            ("rate(x)", 7),
            ("x{a=~\"(\"}", 9),
            ("", 1),
        ] {
            match Query::parse(query) {
                Err(QueryError::Syntax { at: found, .. }) => assert_eq!(found, at, "{query}"),
                other => panic!("{query}: {other:?}"),
            }
        }
        let regexes = format!("x{{{}}}", "a=~\"\\w{9}\",".repeat(17));
        for query in ["(".repeat(10_000), "a".repeat(9_000), "1+".repeat(256) + "1", regexes] {
            assert_eq!(Query::parse(&query).err(), Some(QueryError::TooLarge));
        }
        let longest = "1+".repeat(255) + "1";
        assert_eq!(Query::parse(&longest).unwrap().evaluate(&History::default()), Ok(Some(256.0)));
    }
}
