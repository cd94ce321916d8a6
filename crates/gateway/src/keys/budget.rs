//! What a key may use, and what it has used. Pure: the caller knows the time.

use serde::Serialize;

use super::usage::Tokens;

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// What a key may use. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyLimits {
    /// Requests in a minute.
    pub requests_per_minute: Option<u64>,
    /// Requests in a day.
    pub requests_per_day: Option<u64>,
    /// Tokens of prompts and answers in a minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of prompts and answers in a day.
    pub tokens_per_day: Option<u64>,
    /// Requests at the same time.
    pub concurrent_requests: Option<u64>,
}

/// What a key uses now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyUsage {
    /// Requests in this minute.
    pub requests_this_minute: u64,
    /// Requests on this day, in UTC.
    pub requests_today: u64,
    /// Tokens in this minute.
    pub tokens_this_minute: u64,
    /// Tokens on this day, in UTC.
    pub tokens_today: u64,
    /// Requests that run.
    pub concurrent_requests: u64,
    /// All requests since the gateway started.
    pub requests: u64,
    /// All requests that a limit has refused.
    pub refused: u64,
    /// All tokens of prompts.
    pub prompt_tokens: u64,
    /// All tokens of answers.
    pub completion_tokens: u64,
}

/// The limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExceededLimit {
    /// The limit, in the words of the Secret.
    pub(crate) limit: &'static str,
    pub(crate) allowed: u64,
    /// Seconds until the next request may pass.
    pub(crate) retry_after: u64,
}

/// The account of a key.
#[derive(Debug, Default)]
pub(crate) struct KeyState {
    /// The minute and the day, counted from 1970, to which `usage` belongs.
    minute: u64,
    day: u64,
    usage: KeyUsage,
}

// === impl KeyLimits ===

impl KeyLimits {
    /// The names of the limits in a Secret.
    pub(super) const NAMES: [&str; 5] =
        ["requestsPerMinute", "requestsPerDay", "tokensPerMinute", "tokensPerDay", "concurrentRequests"];

    /// Whether tokens are limited.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens_per_minute.is_some() || self.tokens_per_day.is_some()
    }

    /// The limits that are set, by their names in a Secret.
    pub(super) fn entries(mut self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::NAMES.into_iter().filter_map(move |name| Some((name, (*self.of_name(name)?)?)))
    }

    pub(super) fn of_name(&mut self, name: &str) -> Option<&mut Option<u64>> {
        Some(match Self::NAMES.iter().position(|known| *known == name)? {
            0 => &mut self.requests_per_minute,
            1 => &mut self.requests_per_day,
            2 => &mut self.tokens_per_minute,
            3 => &mut self.tokens_per_day,
            _ => &mut self.concurrent_requests,
        })
    }
}

// === impl KeyState ===

impl KeyState {
    /// Counts a request, if the limits allow it. `now` is in seconds since 1970. The tokens of a request are only known at
    /// its end, so a request passes while any token is left.
    pub(crate) fn begin(&mut self, limits: &KeyLimits, now: u64) -> Result<(), ExceededLimit> {
        self.turn(now);
        let used = self.usage;
        let [minute, day] = [MINUTE, DAY].map(|period| period - now % period);
        let all = [
            ("concurrentRequests", limits.concurrent_requests, used.concurrent_requests, 1),
            ("requestsPerMinute", limits.requests_per_minute, used.requests_this_minute, minute),
            ("requestsPerDay", limits.requests_per_day, used.requests_today, day),
            ("tokensPerMinute", limits.tokens_per_minute, used.tokens_this_minute, minute),
            ("tokensPerDay", limits.tokens_per_day, used.tokens_today, day),
        ];
        let exhausted = all.into_iter().filter_map(|(limit, most, used, retry_after)| {
            let allowed = most.filter(|most| used >= *most)?;
            Some(ExceededLimit { limit, allowed, retry_after })
        });
        // The one that lasts longest, because nothing passes before it ends.
        if let Some(exhausted) = exhausted.max_by_key(|exhausted| exhausted.retry_after) {
            self.usage.refused += 1;
            return Err(exhausted);
        }
        self.usage.concurrent_requests += 1;
        self.usage.requests_this_minute += 1;
        self.usage.requests_today += 1;
        self.usage.requests += 1;
        Ok(())
    }

    /// Ends a request that has begun.
    pub(crate) fn end(&mut self, tokens: Tokens, now: u64) {
        self.turn(now);
        let sum = tokens.prompt.saturating_add(tokens.completion);
        let usage = &mut self.usage;
        usage.concurrent_requests = usage.concurrent_requests.saturating_sub(1);
        for (count, addition) in [
            (&mut usage.tokens_this_minute, sum),
            (&mut usage.tokens_today, sum),
            (&mut usage.prompt_tokens, tokens.prompt),
            (&mut usage.completion_tokens, tokens.completion),
        ] {
            *count = count.saturating_add(addition);
        }
    }

    /// Ends a request that has begun, and that the key is not for: it costs nothing.
    pub(crate) fn cancel(&mut self, now: u64) {
        self.turn(now);
        let usage = &mut self.usage;
        for count in [
            &mut usage.concurrent_requests,
            &mut usage.requests_this_minute,
            &mut usage.requests_today,
            &mut usage.requests,
        ] {
            // The minute or the day may have changed since the request began.
            *count = count.saturating_sub(1);
        }
    }

    /// Returns what the key uses now.
    pub(crate) fn usage(&mut self, now: u64) -> KeyUsage {
        self.turn(now);
        self.usage
    }

    fn turn(&mut self, now: u64) {
        if self.minute != now / MINUTE {
            self.minute = now / MINUTE;
            (self.usage.requests_this_minute, self.usage.tokens_this_minute) = (0, 0);
        }
        if self.day != now / DAY {
            self.day = now / DAY;
            (self.usage.requests_today, self.usage.tokens_today) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 s before the end of a minute, 70 s before the end of a day.
    const NOW: u64 = 100 * DAY - 70;

    #[test]
    fn a_limit_ends_with_its_period_and_says_when() {
        let limits =
            KeyLimits { requests_per_minute: Some(1), requests_per_day: Some(2), ..KeyLimits::default() };
        let mut state = KeyState::default();
        let none = Tokens::default();
        assert_eq!(state.begin(&limits, NOW), Ok(()));
        state.cancel(NOW);
        assert_eq!(state.usage(NOW), KeyUsage::default());
        assert_eq!(state.begin(&limits, NOW), Ok(()));
        state.end(none, NOW);
        let minute = ExceededLimit { limit: "requestsPerMinute", allowed: 1, retry_after: 10 };
        assert_eq!(state.begin(&limits, NOW), Err(minute));
        assert_eq!(state.begin(&limits, NOW + 10), Ok(()));
        let day = ExceededLimit { limit: "requestsPerDay", allowed: 2, retry_after: 60 };
        assert_eq!(
            state.begin(&limits, NOW + 10),
            Err(day),
            "it lasts as long as the minute, and comes last"
        );
        assert_eq!(state.begin(&limits, NOW + 70), Ok(()));
        assert_eq!(state.usage(NOW + 70).refused, 2);
    }

    #[test]
    fn tokens_count_when_a_request_ends_and_requests_while_they_run() {
        let limits =
            KeyLimits { tokens_per_minute: Some(10), concurrent_requests: Some(2), ..KeyLimits::default() };
        let mut state = KeyState::default();
        assert_eq!(state.begin(&limits, NOW), Ok(()));
        assert_eq!(state.begin(&limits, NOW), Ok(()));
        let busy = ExceededLimit { limit: "concurrentRequests", allowed: 2, retry_after: 1 };
        assert_eq!(state.begin(&limits, NOW), Err(busy));
        state.end(Tokens { prompt: 7, completion: 2 }, NOW);
        assert_eq!(state.begin(&limits, NOW), Ok(()), "one token is left");
        state.end(Tokens { prompt: 7, completion: 2 }, NOW);
        let tokens = ExceededLimit { limit: "tokensPerMinute", allowed: 10, retry_after: 10 };
        assert_eq!(state.begin(&limits, NOW), Err(tokens));
        let usage = state.usage(NOW + 10);
        assert_eq!((usage.tokens_this_minute, usage.tokens_today), (0, 18));
        assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.concurrent_requests), (14, 4, 1));
    }
}
