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
    /// Whether the condition does not hold with one more than the smallest number: the result depends on chance.
    pub is_unstable: bool,
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
        let condition = Self { name, is_below: rest.starts_with('<'), bound };
        if condition.is_time() && !condition.is_below {
            return Err(wrong("a time is to stay below a limit"));
        }
        if condition.is_share() && !condition.is_below && bound >= 1.0 {
            return Err(wrong(&format!("`{}` is at most 100 %", condition.name)));
        }
        Ok(condition)
    }
}

impl Condition {
    /// Whether more replicas do not make the number worse. More replicas share fewer prefixes, are less even and cost more.
    fn improves_with_replicas(&self) -> bool {
        let others = ["goodput", "good_per_second", "answered", "rejections."];
        self.is_time() || others.iter().any(|name| self.name.starts_with(name))
    }

    /// Whether its number counts responses within an objective.
    pub fn needs_objective(&self) -> bool {
        self.name.starts_with("good")
    }

    fn is_time(&self) -> bool {
        ["ttft.", "itl.", "e2e."].iter().any(|name| self.name.starts_with(name))
    }

    fn is_share(&self) -> bool {
        ["goodput", "hit_ratio"].contains(&self.name.as_str())
    }
    /// Returns a value of the condition's number for people.
    pub fn text(&self, value: f64) -> String {
        match &self.name {
            name if self.is_time() => format!("{name} {} ms", crate::chart::number(value)),
            name if self.is_share() => format!("{name} {:.1} %", value * 100.0),
            name => format!("{name} {value}"),
        }
    }

    /// Returns the value of the condition's number, and whether the condition holds.
    pub fn judge(&self, report: &Report) -> (f64, bool) {
        let value = report.number(&self.name).unwrap_or(f64::NAN);
        // A pool that answers few requests answers those fast.
        let answers = report.answered * 100 >= report.requests * 99;
        (value, answers && if self.is_below { value < self.bound } else { value > self.bound })
    }
}

impl Sweep {
    /// Finds the smallest number. For a number that more replicas do not make worse, by bisection, which also looks at the next
    /// number to see whether chance decides. For others, it tries one number after the other.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn find<E>(
        self,
        condition: &Condition,
        mut run: impl FnMut(usize) -> Result<Report, E>,
    ) -> Result<SweepResult, E> {
        let mut result = SweepResult { steps: Vec::new(), smallest: None, limit: None, is_unstable: false };
        let mut largest_failing = 0;
        let mut holds = |replicas: usize, result: &mut SweepResult| -> Result<bool, E> {
            let report = run(replicas)?;
            let (value, holds) = condition.judge(&report);
            result.steps.push((replicas, value, holds));
            if !holds && replicas > largest_failing {
                largest_failing = replicas;
                result.limit = Some(limit(&report));
            }
            Ok(holds)
        };
        if condition.improves_with_replicas() {
            // The largest number is tried first: if it is too small, all are.
            if holds(self.to, &mut result)? {
                let (mut low, mut high) = (self.from, self.to);
                while low < high {
                    let next = usize::midpoint(low, high);
                    if holds(next, &mut result)? {
                        high = next;
                    } else {
                        low = next + 1;
                    }
                }
                result.smallest = Some(high);
            }
        } else {
            for replicas in self.from..=self.to {
                if holds(replicas, &mut result)? {
                    result.smallest = Some(replicas);
                    break;
                }
            }
        }
        if let Some(next) = result.smallest.map(|smallest| smallest + 1).filter(|next| *next <= self.to) {
            let tried =
                result.steps.iter().find(|(replicas, ..)| *replicas == next).map(|(.., holds)| *holds);
            // What limits is said of the numbers below.
            let limit = result.limit;
            result.is_unstable = !match tried {
                Some(holds) => holds,
                None => holds(next, &mut result)?,
            };
            result.limit = limit;
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
        assert_eq!((found.smallest, runs <= 8), (Some(11), true));
        assert!(found.limit.is_some() && found.steps.contains(&(10, 900.0, false)));
    }

    #[test]
    fn a_sweep_without_a_solution_names_the_limit() {
        let condition: Condition = "goodput>99%".parse().unwrap();
        let found = Sweep { from: 2, to: 4 }.find(&condition, |_| Ok::<_, ()>(Report::empty())).unwrap();
        assert_eq!((found.smallest, found.steps.len(), found.limit.is_some()), (None, 1, true));
    }

    #[test]
    fn non_monotonic_targets_are_tried_one_by_one() {
        let sweep = Sweep { from: 1, to: 64 };
        let with = |condition: &str, hits: &dyn Fn(usize) -> f64| {
            let condition: Condition = condition.parse().unwrap();
            let run = |replicas: usize| {
                let mut report = Report::empty();
                (report.hit_ratio, report.ttft.p99) = (hits(replicas), hits(replicas) * 1000.0);
                Ok::<_, ()>(report)
            };
            sweep.find(&condition, run).unwrap()
        };
        // The largest number does not hold, and a bisection would give up.
        let falling = with("hit_ratio>50%", &|replicas| if (3..9).contains(&replicas) { 0.6 } else { 0.1 });
        assert_eq!((falling.smallest, falling.is_unstable), (Some(3), false));
        let lucky = with("hit_ratio>50%", &|replicas| if replicas == 3 { 0.6 } else { 0.1 });
        assert_eq!((lucky.smallest, lucky.is_unstable), (Some(3), true));
        let chance =
            with("ttft.p99<500ms", &|replicas| if replicas < 8 || replicas == 9 { 0.6 } else { 0.1 });
        assert_eq!((chance.smallest, chance.is_unstable), (Some(8), true));
    }

    #[test]
    fn values_have_the_unit_of_their_number() {
        for (condition, value, expected) in [
            ("ttft.p99<1s", 812.4, "ttft.p99 812 ms"),
            ("goodput>99%", 0.991, "goodput 99.1 %"),
            ("skew<0.5", 0.25, "skew 0.25"),
        ] {
            assert_eq!(condition.parse::<Condition>().unwrap().text(value), expected);
        }
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
