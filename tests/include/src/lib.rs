//! Tests of documents that are part of a program; there is no code here.
