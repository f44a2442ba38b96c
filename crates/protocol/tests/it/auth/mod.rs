//! A client's login and a server's look at its token, with a small authorization server between them.

mod issuer;
mod login;
mod resource;
