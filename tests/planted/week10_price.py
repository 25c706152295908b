"""Week 10, the price of a token and the settings that are worth it."""

PRICE = "return dollars_per_hour / 3600 * step_seconds / batch_size * 1e6"
COUNT = "    require_count(1, batch_size=batch_size)\n    return dollars_per_hour"
BETTER = "if not front or point[1] < front[-1][1] or tuple(point[:2]) == tuple(front[-1][:2]):"
NUMBERS = 'require_not_negative(**{f"points[{index}][0]": point[0], f"points[{index}][1]": point[1]})'
BY = "key=lambda point: tuple(point[:2])"
SHARED = "test_cost_per_million_shares_the_hour_among_all_tokens_of_the_batch"
NO_PRICE = "test_cost_per_million_refuses_what_has_no_price"
FRONT = "test_pareto_front_drops_what_is_beaten_and_sorts_the_rest"
SECOND = "test_pareto_front_drops_a_point_that_ties_in_the_second_number"
LABELS = "test_pareto_front_carries_labels_along_and_keeps_equal_points"
NO_POINT = "test_pareto_front_refuses_what_is_no_point"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "price of a step in place of a token",
        PRICE,
        "return dollars_per_hour / 3600 * step_seconds * 1e6",
        SHARED,
        "each step writes one token for every sequence",
    ),
    (
        "an hour taken for a second",
        PRICE,
        "return dollars_per_hour * step_seconds / batch_size * 1e6",
        SHARED,
        "dollars an hour taken for dollars a second",
    ),
    ("an hour taken for a minute", PRICE, PRICE.replace("3600", "60"), SHARED, "for dollars a minute"),
    (
        "millions of tokens over dollars",
        PRICE,
        "return dollars_per_hour * 3600 / step_seconds * batch_size / 1e6",
        SHARED,
        "upside down",
    ),
    ("times the batch", PRICE, PRICE.replace("/ batch_size", "* batch_size"), SHARED, "multiplied by the batch"),
    ("the price of one token", PRICE, PRICE.replace(" * 1e6", ""), SHARED, "the price of a token, not of a million"),
    ("the price of a thousand", PRICE, PRICE.replace("1e6", "1e3"), SHARED, "the price of a thousand tokens"),
    (
        "rounded to cents",
        PRICE,
        PRICE.replace("return ", "return round(") + ", 2)",
        "test_cost_per_million_of_an_h100",
        "rounded to cents",
    ),
    (
        "a step of no time",
        "require_positive(step_seconds=step_seconds, dollars_per_hour=dollars_per_hour)",
        "require_positive(dollars_per_hour=dollars_per_hour)",
        NO_PRICE,
        "impossible because of step_seconds",
    ),
    ("no sequence", COUNT, "    return dollars_per_hour", NO_PRICE, "impossible because of batch_size"),
    ("a front that keeps what is beaten", BETTER, "if True:", FRONT, "slower and dearer"),
    (
        "a front that keeps ties in one number",
        BETTER,
        "if not front or point[1] < front[-1][1] or point[0] == front[-1][0]:",
        FRONT,
        "a tie in one number does not save it",
    ),
    ("a front sorted by price", "    return front\n", "    return front[::-1]\n", FRONT, "sort by the first"),
    (
        "a front where more is better",
        f"sorted(points, {BY})",
        f"sorted(points, {BY}, reverse=True)",
        FRONT,
        "less is better in both",
    ),
    ("a front as a tuple", "    return front\n", "    return tuple(front)\n", FRONT, "a list of points, not a tuple"),
    (
        "a front that keeps what is as dear and slower",
        BETTER,
        "if not front or point[1] <= front[-1][1]:",
        SECOND,
        "is as dear as",
    ),
    ("a front without equal points", BETTER, "if not front or point[1] < front[-1][1]:", LABELS, "both stay"),
    ("labels compared", f"sorted(points, {BY})", "sorted(points)", LABELS, "labels were compared"),
    (
        "labels lost",
        "            front.append(point)",
        "            front.append(tuple(point[:2]))",
        LABELS,
        "goes along",
    ),
    ("labels refused", "if len(point) < 2:", "if len(point) != 2:", LABELS, "points with labels were refused"),
    (
        "points read twice",
        "    points = list(points)\n    for index",
        "    for index",
        "test_pareto_front_takes_points_that_can_be_read_once",
        "an iterator, which is read once",
    ),
    (
        "points sorted in place",
        "    points = list(points)\n    for index",
        f"    if isinstance(points, list):\n        points.sort({BY})\n    points = list(points)\n    for index",
        FRONT,
        "changed its argument points",
    ),
    (
        "no point refused",
        "    front: list[Sequence[Any]] = []\n",
        '    if not points:\n        raise ValueError("points are missing")\n    front: list[Sequence[Any]] = []\n',
        "test_pareto_front_of_no_point_is_empty",
        "ValueError: points are missing",
    ),
    (
        "zeros refused",
        NUMBERS,
        NUMBERS.replace("require_not_negative", "require_positive"),
        "test_pareto_front_takes_zeros",
        "0 is allowed",
    ),
    ("points that are no numbers", NUMBERS, "pass", NO_POINT, "impossible because of point"),
]
MISTAKES = [
    {"name": f"price, {name}", "week": 10, "file": "budget/pricing.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _MISTAKES
]
