"""The web book: each week as a page with what its cells print, the API, the glossary, made by `course book`."""
