//! Which requests are traced.

use marquetry_trace_context::TraceContext;

/// The sampler that `OTEL_TRACES_SAMPLER` names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// Whether a request that names a span above it is traced as that one is.
    follows_parent: bool,
    /// The part of the other traces that is recorded, 0 to 1.
    ratio: f64,
}

impl Sampling {
    /// Reads the name and the argument of a sampler.
    pub(crate) fn parse(name: Option<&str>, argument: Option<&str>) -> Result<Self, String> {
        let name = name.map_or("parentbased_always_on", str::trim);
        let kind = name.strip_prefix("parentbased_");
        let ratio = match kind.unwrap_or(name) {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                let argument = argument.map_or("1", str::trim);
                let ratio = argument.parse().ok().filter(|it| (0.0..=1.0).contains(it));
                ratio.ok_or_else(|| {
                    format!("OTEL_TRACES_SAMPLER_ARG: {argument:?} is not a number from 0 to 1")
                })?
            }
            _ => {
                return Err(format!(
                    "OTEL_TRACES_SAMPLER: unknown sampler {name:?}; expected always_on, always_off, traceidratio, or one of them after parentbased_"
                ));
            }
        };
        Ok(Self { follows_parent: kind.is_some(), ratio })
    }

    /// Returns the span of a request that begins.
    pub(crate) fn begin(self, parent: Option<TraceContext>) -> TraceContext {
        let span = parent.map_or_else(|| TraceContext::root(true), |parent| parent.child());
        match parent {
            Some(_) if self.follows_parent => span,
            _ => span.with_sampled(self.includes(span)),
        }
    }

    /// Decides by the id, so that all programs of a trace decide alike.
    fn includes(self, span: TraceContext) -> bool {
        // The last 56 bits are random (Trace Context Level 2, 3.2.2.3.1).
        let random = u128::from_be_bytes(span.trace_id()) & ((1 << 56) - 1);
        (random as f64) < self.ratio * (1_u64 << 56) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(name: &str, argument: Option<&str>) -> Sampling {
        Sampling::parse(Some(name), argument).unwrap()
    }

    #[test]
    fn samplers_by_their_names() {
        let default = Sampling::parse(None, None).unwrap();
        assert_eq!(default, sampling("parentbased_always_on", None));
        for (name, of_unsampled, of_sampled, of_none) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("parentbased_always_on", false, true, true),
            ("parentbased_always_off", false, true, false),
        ] {
            let sampling = sampling(name, None);
            let parent = TraceContext::root(true);
            let unsampled = Some(parent.with_sampled(false));
            assert_eq!(sampling.begin(unsampled).is_sampled(), of_unsampled, "{name}");
            assert_eq!(sampling.begin(Some(parent)).is_sampled(), of_sampled, "{name}");
            assert_eq!(sampling.begin(None).is_sampled(), of_none, "{name}");
        }
    }

    #[test]
    fn a_ratio_records_its_part() {
        let sampling = sampling("traceidratio", Some("0.25"));
        let sampled = (0..4_000).filter(|_| sampling.begin(None).is_sampled()).count();
        assert!((800..1_200).contains(&sampled), "{sampled}");
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (name, argument, want) in [
            ("jaeger_remote", None, "OTEL_TRACES_SAMPLER: unknown sampler \"jaeger_remote\""),
            ("traceidratio", Some("2"), "OTEL_TRACES_SAMPLER_ARG: \"2\" is not a number"),
            ("parentbased_traceidratio", Some("x"), "OTEL_TRACES_SAMPLER_ARG: \"x\""),
        ] {
            let problem = Sampling::parse(Some(name), argument).unwrap_err();
            assert!(problem.starts_with(want), "{problem}");
        }
    }
}
