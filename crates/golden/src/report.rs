//! Counts the equal cases, and lists the differences.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::{Difference, IntendedDifferences};

/// The results of all cases.
#[derive(Debug, Default)]
pub struct Report {
    equal: Vec<String>,
    meant: BTreeMap<String, Vec<&'static str>>,
    unexplained: Vec<(String, Difference)>,
    out_of_scope: BTreeMap<String, Vec<String>>,
}

impl Report {
    /// Adds the differences of a case, and prints those without a reason.
    #[expect(clippy::print_stdout, reason = "there are hundreds of cases, and people wait for them")]
    pub fn add(&mut self, case: &str, differences: Vec<Difference>, meant: &IntendedDifferences) {
        if differences.is_empty() {
            self.equal.push(case.to_owned());
        }
        for difference in differences {
            if let Some(reason) = meant.reason(case, &difference) {
                let reasons = self.meant.entry(case.to_owned()).or_default();
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            } else {
                println!(
                    "DIFFERENT {case} {}\n  recorded: {}\n  ours:     {}",
                    difference.place, difference.recorded, difference.ours
                );
                self.unexplained.push((case.to_owned(), difference));
            }
        }
    }

    /// Adds a case that this test leaves to another one.
    pub fn leave_out(&mut self, case: &str, why: String) {
        self.out_of_scope.entry(why).or_default().push(case.to_owned());
    }

    /// Returns the number of differences without a reason.
    pub fn unexplained(&self) -> usize {
        self.unexplained.len()
    }

    /// Prints each case with intended differences and their reasons, and the counts.
    #[expect(clippy::print_stdout, reason = "the counts are what such a test is read for")]
    pub fn print(&self) {
        let different: BTreeSet<&String> = self.unexplained.iter().map(|(case, _)| case).collect();
        for (case, reasons) in &self.meant {
            println!("meant {case}: {}", reasons.join("; "));
        }
        for (why, cases) in &self.out_of_scope {
            println!("out of scope ({}): {why}: {}", cases.len(), cases.join(" "));
        }
        let mut alone: BTreeMap<&str, usize> = BTreeMap::new();
        for reasons in self.meant.values().filter(|reasons| reasons.len() == 1) {
            *alone.entry(reasons[0]).or_default() += 1;
        }
        for (reason, count) in alone {
            println!("equal but for one thing ({count}): {reason}");
        }
        let meant = self.meant.keys().filter(|case| !different.contains(*case)).count();
        let out_of_scope: usize = self.out_of_scope.values().map(Vec::len).sum();
        println!(
            "equal {}, different with a reason {meant}, different {}, out of scope {out_of_scope}",
            self.equal.len(),
            different.len()
        );
    }
}
