//! The five fields of a cron schedule, `0 8 * * mon-fri`. Kubernetes and KEDA read them with <https://github.com/robfig/cron>, whose
//! words the errors have.

/// A field of a schedule: the least and the greatest number, and names for the numbers from the least on.
struct Part {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const PARTS: [Part; 5] = [
    Part { least: 0, most: 59, names: &[] },
    Part { least: 0, most: 23, names: &[] },
    Part { least: 1, most: 31, names: &[] },
    Part {
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Part { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Checks the five fields of a schedule.
///
/// # Errors
/// What is wrong with the first wrong field.
pub fn check(text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != PARTS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", words.len(), words.join(" ")));
    }
    PARTS.iter().zip(words).try_for_each(|(part, word)| part.check(word))
}

// === impl Part ===

impl Part {
    /// Checks a list of ranges.
    fn check(&self, word: &str) -> Result<(), String> {
        word.split(',').filter(|range| !range.is_empty()).try_for_each(|range| self.check_range(range))
    }

    /// Checks `*`, a number or a range, with or without a step.
    fn check_range(&self, text: &str) -> Result<(), String> {
        let mut words = text.split('/');
        let bounds: Vec<&str> = words.next().unwrap_or_default().split('-').collect();
        let steps: Vec<&str> = words.collect();
        let (first, mut last) = match bounds.as_slice() {
            [] | ["*" | "?", ..] => (self.least, self.most),
            [only] => (self.number(only)?, self.number(only)?),
            [first, last] => (self.number(first)?, self.number(last)?),
            [first, ..] => {
                self.number(first)?;
                return Err(format!("too many hyphens: {text}"));
            }
        };
        let step = match steps.as_slice() {
            [] => 1,
            [step] => number(step)?,
            _ => return Err(format!("too many slashes: {text}")),
        };
        if bounds.len() == 1 && !steps.is_empty() {
            last = self.most;
        }
        let Self { least, most, .. } = self;
        if first < *least {
            return Err(format!("beginning of range ({first}) below minimum ({least}): {text}"));
        }
        if last > *most {
            return Err(format!("end of range ({last}) above maximum ({most}): {text}"));
        }
        if first > last {
            return Err(format!("beginning of range ({first}) beyond end of range ({last}): {text}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        Ok(())
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        let mut named = self.names.iter().zip(self.least..);
        named
            .find(|(name, _)| text.eq_ignore_ascii_case(name))
            .map_or_else(|| number(text), |(_, number)| Ok(number))
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => {
            u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
        }
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_schedule_has_five_lists_of_ranges() {
        for fine in ["0 0 1-31/2 JAN-dec ?", "5/10 * * * *", "1,,2 * * * *"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (wrong, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/1/2 * * * *", "too many slashes: */1/2"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
        ] {
            assert_eq!(check(wrong), Err(why.to_owned()), "{wrong}");
        }
    }
}
