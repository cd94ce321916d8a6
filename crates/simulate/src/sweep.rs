//! The smallest number of replicas with which a condition holds.

use std::{str::FromStr, time::Duration};

use crate::{explain::limit, report::Report};

/// A range of replicas, `2..16` with both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// The fewest.
    pub from: usize,
    /// The most.
    pub to: usize,
}

/// A condition on a report, such as `ttft.p99<800ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    name: String,
    is_below: bool,
    bound: f64,
}

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepResult {
    /// The numbers that were simulated, with the value of the condition's number and whether the condition holds.
    pub steps: Vec<(usize, f64, bool)>,
    /// The smallest number with which it holds. `None` if it holds with none.
    pub smallest: Option<usize>,
    /// What limits the largest number with which it does not hold.
    pub limit: Option<&'static str>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: expected a range such as replicas=2..16");
        let range = text.strip_prefix("replicas=").ok_or_else(wrong)?;
        let (from, to) = range.split_once("..").ok_or_else(wrong)?;
        let (from, to) =
            (from.parse().map_err(|_| wrong())?, to.trim_start_matches('=').parse().map_err(|_| wrong())?);
        if from == 0 || from > to || to > crate::pool::MAX_ENDPOINTS {
            return Err(wrong());
        }
        Ok(Self { from, to })
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("`{text}`: {what}; expected a condition such as ttft.p99<800ms or goodput>0.99")
        };
        let at = text.find(['<', '>']).ok_or_else(|| wrong("no `<` or `>`"))?;
        let (name, rest) = text.split_at(at);
        let value = rest[1..].trim_start_matches('=').trim();
        let units = [("ms", 1.0), ("s", 1000.0), ("%", 0.01)];
        let found = units.iter().find_map(|(unit, factor)| Some((value.strip_suffix(unit)?, *factor)));
        let (number, factor) = found.unwrap_or((value, 1.0));
        let bound = number.trim().parse::<f64>().ok().filter(|bound| bound.is_finite());
        let bound = bound.ok_or_else(|| wrong("no number"))? * factor;
        let name = name.trim().to_owned();
        if Report::empty().number(&name).is_none() {
            return Err(wrong(&format!("there is no number `{name}`")));
        }
        let is_below = rest.starts_with('<');
        let is_time = ["ttft", "itl", "e2e"].iter().any(|time| name.starts_with(time));
        if is_time && !is_below {
            return Err(wrong("a time is to stay below a limit"));
        }
        let is_share = ["goodput", "hit_ratio"].contains(&name.as_str());
        if is_share && !is_below && bound >= 1.0 {
            return Err(wrong(&format!("`{name}` is at most 100 %")));
        }
        Ok(Self { name, is_below, bound })
    }
}

impl Condition {
    /// Returns the value of the condition's number, and whether the condition holds.
    pub fn judge(&self, report: &Report) -> (f64, bool) {
        let value = report.number(&self.name).unwrap_or(f64::NAN);
        // A pool that answers few requests answers those fast.
        let answers = report.answered * 100 >= report.requests * 99;
        (value, answers && if self.is_below { value < self.bound } else { value > self.bound })
    }
}

impl Sweep {
    /// Finds the smallest number, by bisection: more replicas are not worse.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn find<E>(
        self,
        condition: &Condition,
        mut run: impl FnMut(usize) -> Result<Report, E>,
    ) -> Result<SweepResult, E> {
        let (mut low, mut high) = (self.from, self.to);
        let mut result = SweepResult { steps: Vec::new(), smallest: None, limit: None };
        let mut largest_failing = 0;
        // The largest number is tried first: if it is too small, all are.
        let mut next = high;
        loop {
            let report = run(next)?;
            let (value, holds) = condition.judge(&report);
            result.steps.push((next, value, holds));
            if holds {
                result.smallest = Some(next);
                high = next;
            } else {
                if next > largest_failing {
                    largest_failing = next;
                    result.limit = Some(limit(&report));
                }
                if result.smallest.is_none() {
                    break;
                }
                low = next + 1;
            }
            if low >= high {
                break;
            }
            next = usize::midpoint(low, high);
        }
        result.steps.sort_unstable_by_key(|(replicas, ..)| *replicas);
        Ok(result)
    }
}

impl Report {
    /// A report of nothing, which has all numbers.
    fn empty() -> Self {
        crate::report::Recorder::new(crate::report::Slo { ttft: Some(Duration::ZERO), ..Default::default() })
            .measured(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_finds_the_smallest_number_in_few_runs() {
        let condition: Condition = "ttft.p99<800ms".parse().unwrap();
        let mut runs = 0;
        let found = Sweep { from: 2, to: 64 }.find(&condition, |replicas| {
            runs += 1;
            let mut report = Report::empty();
            report.ttft.p99 = if replicas < 11 { 900.0 } else { 700.0 };
            Ok::<_, ()>(report)
        });
        let found = found.unwrap();
        assert_eq!((found.smallest, runs <= 7), (Some(11), true));
        assert!(found.limit.is_some() && found.steps.contains(&(10, 900.0, false)));
    }

    #[test]
    fn a_range_in_which_nothing_is_enough_says_what_limits() {
        let condition: Condition = "goodput>99%".parse().unwrap();
        let found = Sweep { from: 2, to: 4 }.find(&condition, |_| Ok::<_, ()>(Report::empty())).unwrap();
        assert_eq!((found.smallest, found.steps.len(), found.limit.is_some()), (None, 1, true));
    }

    #[test]
    fn wrong_ranges_and_conditions_are_refused() {
        assert_eq!("replicas=2..16".parse(), Ok(Sweep { from: 2, to: 16 }));
        for text in ["replicas=0..4", "replicas=5..4", "2..4", "replicas=a..4"] {
            assert!(text.parse::<Sweep>().is_err(), "{text}");
        }
        for text in ["ttft.p99", "ttft.p98<1s", "goodput>x", "<5", "ttft.p99>1s", "goodput>999%"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
        assert_eq!("itl.p50 < 1s".parse::<Condition>().unwrap().bound.to_bits(), 1000f64.to_bits());
    }
}
