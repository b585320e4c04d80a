"""The HTTP API under `/api/v1`: the types of what is said (`shape`), what each path does (`deed`), the document that
describes it (`document`), and the way in (`site`). It runs nothing: it reads and writes the store."""
