//! Rewrites a program so that it is metered wherever it could run or grow without end.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    ops::Math,
    path::{Part, Path},
};

use super::natives::{CHARACTERS, DIV, FORMAT, INDICES, MUL, READABLE, STEP, VALUE, WHOLE};

/// Name of a variable that no program can have.
const OPERAND: &str = "$!operand";

/// Native filters that look at every part of their input at once, so its size counts before them.
/// An operation such as `. + [$x]` is counted without the parts of its parts.
const WHOLE_READERS: [&str; 14] = [
    "bsearch",
    "contains",
    "fromdateiso8601",
    "gmtime",
    "group_by",
    "implode",
    "max_by_or_empty",
    "min_by_or_empty",
    "mktime",
    "sort",
    "sort_by",
    "tobytes",
    "todateiso8601",
    "tojson",
];

/// Returns a definition whose calls are steps: recursion is the only way to repeat something that
/// is not an iteration.
pub(super) fn metered(def: Def<&str>) -> Def<&str> {
    let body = pipe(Term::Call(STEP, Vec::new()), rewritten(def.body));
    Def { body, ..def }
}

/// Returns a term in which iterations, and operations that make values, are followed by a meter.
fn rewritten(term: Term<&str>) -> Term<&str> {
    match term {
        Term::Recurse => then(Term::Recurse, STEP),
        Term::Str(format, parts) => {
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Term(term) => StrPart::Term(then(rewritten(term), WHOLE)),
                other => other,
            });
            then(Term::Str(format, parts.collect()), VALUE)
        }
        Term::Arr(term) => then(Term::Arr(term.map(boxed)), WHOLE),
        Term::Obj(members) => {
            let members = members.into_iter();
            let members = members.map(|(key, value)| (rewritten(key), value.map(rewritten)));
            then(Term::Obj(members.collect()), WHOLE)
        }
        Term::Neg(term) => Term::Neg(boxed(term)),
        Term::BinOp(left, op @ BinaryOp::Cmp(_), right) if is_small(&left) || is_small(&right) => {
            binary(rewritten(*left), op, rewritten(*right))
        }
        Term::BinOp(left, op, right) => operation(rewritten(*left), op, rewritten(*right)),
        Term::Label(name, term) => Term::Label(name, boxed(term)),
        Term::Fold(name, source, pattern, terms) => Term::Fold(
            name,
            boxed(source),
            rewritten_pattern(pattern),
            terms.into_iter().map(rewritten).collect(),
        ),
        Term::TryCatch(term, catch) => Term::TryCatch(boxed(term), catch.map(boxed)),
        Term::IfThenElse(cases, otherwise) => Term::IfThenElse(
            cases.into_iter().map(|(when, then)| (rewritten(when), rewritten(then))).collect(),
            otherwise.map(boxed),
        ),
        Term::Def(defs, term) => Term::Def(defs.into_iter().map(metered).collect(), boxed(term)),
        Term::Call(name, arguments) => {
            let arguments: Vec<_> = arguments.into_iter().map(rewritten).collect();
            // Native, and the only one that makes more values than its input has.
            if name == "range" && arguments.len() == 3 {
                return then(Term::Call(name, arguments), STEP);
            }
            call(name, arguments)
        }
        Term::Path(term, Path(parts)) => {
            let iterates = parts.iter().any(|(part, _)| matches!(part, Part::Range(None, None)));
            let parts = parts.into_iter().map(|(part, option)| {
                let part = match part {
                    Part::Index(term) => Part::Index(rewritten(term)),
                    Part::Range(from, to) => Part::Range(from.map(rewritten), to.map(rewritten)),
                };
                (part, option)
            });
            let path = Term::Path(boxed(term), Path(parts.collect()));
            if iterates { then(path, STEP) } else { path }
        }
        Term::Id | Term::Num(_) | Term::Break(_) | Term::Var(_) => term,
    }
}

/// Returns a call, after and before the meters that its filter needs.
fn call<'p>(name: &'p str, mut arguments: Vec<Term<&'p str>>) -> Term<&'p str> {
    let measure = match name {
        // These take long for each character.
        "explode" | "encode_base64" | "encode_uri" | "escape_html" | "escape_sh" | "decode_uri"
        | "unescape_html" => CHARACTERS,
        "fromjson" => READABLE,
        "indices" => INDICES,
        "strftime" | "strptime" => FORMAT,
        _ => WHOLE,
    };
    // `indices(f)` is `f as $x | !indices($x) | indices($x)`.
    if let (INDICES | FORMAT, 1) = (measure, arguments.len()) {
        let argument = arguments.remove(0);
        let measured = Term::Call(measure, vec![Term::Var(OPERAND)]);
        let call = Term::Call(name, vec![Term::Var(OPERAND)]);
        let bind = BinaryOp::Pipe(Some(Pattern::Var(OPERAND)));
        let counted = pipe(Term::Call(WHOLE, Vec::new()), measured);
        return binary(argument, bind, pipe(counted, call));
    }
    let is_measured = measure != WHOLE || WHOLE_READERS.contains(&name);
    let call = Term::Call(name, arguments);
    let measured = if is_measured { pipe(Term::Call(measure, Vec::new()), call) } else { call };
    // The result may be a longer text.
    if measure == CHARACTERS || name == "tojson" { then(measured, VALUE) } else { measured }
}

/// Returns whether a term is a value that is compared in a step, whatever the other one is.
fn is_small(term: &Term<&str>) -> bool {
    match term {
        Term::Num(_) | Term::Arr(None) => true,
        Term::Str(None, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Obj(members) => members.is_empty(),
        Term::Call(name, arguments) => {
            arguments.is_empty() && ["true", "false", "null"].contains(name)
        }
        _ => false,
    }
}

fn operation<'p>(
    left: Term<&'p str>,
    op: BinaryOp<&'p str>,
    right: Term<&'p str>,
) -> Term<&'p str> {
    match op {
        BinaryOp::Math(Math::Mul) => then(Term::Call(MUL, vec![left, right]), VALUE),
        BinaryOp::Math(Math::Div) => then(Term::Call(DIV, vec![left, right]), VALUE),
        BinaryOp::Cmp(_) => binary(then(left, WHOLE), op, then(right, WHOLE)),
        BinaryOp::Math(_) => then(binary(left, op, right), VALUE),
        // `l *= r` is `r as $x | l |= . * $x`.
        BinaryOp::UpdateMath(math @ (Math::Mul | Math::Div)) => {
            let native = if math == Math::Mul { MUL } else { DIV };
            let result = Term::Call(native, vec![Term::Id, Term::Var(OPERAND)]);
            let update = binary(left, BinaryOp::Update, then(result, VALUE));
            let bind = BinaryOp::Pipe(Some(Pattern::Var(OPERAND)));
            then(binary(right, bind, update), WHOLE)
        }
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            then(binary(left, op, right), WHOLE)
        }
        BinaryOp::Pipe(pattern) => {
            binary(left, BinaryOp::Pipe(pattern.map(rewritten_pattern)), right)
        }
        _ => binary(left, op, right),
    }
}

fn rewritten_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(patterns) => {
            Pattern::Arr(patterns.into_iter().map(rewritten_pattern).collect())
        }
        Pattern::Obj(members) => {
            let members = members.into_iter();
            let members =
                members.map(|(key, pattern)| (rewritten(key), rewritten_pattern(pattern)));
            Pattern::Obj(members.collect())
        }
    }
}

#[expect(clippy::boxed_local, reason = "the terms of the parser are boxed")]
fn boxed(term: Box<Term<&str>>) -> Box<Term<&str>> {
    Box::new(rewritten(*term))
}

fn then<'p>(term: Term<&'p str>, native: &'static str) -> Term<&'p str> {
    pipe(term, Term::Call(native, Vec::new()))
}

fn pipe<'p>(left: Term<&'p str>, right: Term<&'p str>) -> Term<&'p str> {
    binary(left, BinaryOp::Pipe(None), right)
}

fn binary<'p>(left: Term<&'p str>, op: BinaryOp<&'p str>, right: Term<&'p str>) -> Term<&'p str> {
    Term::BinOp(Box::new(left), op, Box::new(right))
}
